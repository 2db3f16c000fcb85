--[[
Sums of peer-milliseconds, which are whole numbers and pass through Redis as text.

Defines
  msOf(count)  ms in a count `websocketMs:webrtcMs:peak`; 0 if there is none
  text(ms)     the number in full, which Lua's own way of writing numbers would round
]]
local function msOf(count)
  if not count then return 0 end
  local websocket, webrtc = string.match(count, '^(%d+):(%d+):')
  return tonumber(websocket) + tonumber(webrtc)
end
local function text(ms) return string.format('%.0f', ms) end
