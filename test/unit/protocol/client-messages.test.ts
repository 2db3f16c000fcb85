import { describe, expect, test } from 'vitest';
import { MessageError, parseClientMessage } from '../../../src/protocol/client-messages.ts';

const parse = (message: object) => parseClientMessage(JSON.stringify(message));

/** Returns the fault of a message. */
function faultOf(message: object): MessageError {
  try {
    parse(message);
  } catch (fault) {
    if (fault instanceof MessageError) return fault;
    throw fault;
  }
  throw new Error('the message is valid');
}

test.each(['a', 'x'.repeat(512), '😀'.repeat(512), 'a\u2028b', 'a/b~c'])(
  'the volume of a name of 1 to 512 characters is taken if it is 0 to 4',
  (name) => {
    const message = { type: 'configure', volume: { [name]: 0.5 } };
    expect(parse(message)).toEqual(message);
    for (const gain of [9, -1, 'x', {}, null]) {
      expect(faultOf({ ...message, volume: { [name]: gain } }).message).toContain('volume.');
    }
  },
);

test.each([
  ['', 'fewer than 1 characters'],
  ['x'.repeat(513), 'more than 512 characters'],
  ['\n'.repeat(513), 'more than 512 characters'],
  ['a\nb', 'malformed'],
  ['a\ud800b', 'malformed'],
  ['x'.repeat(60_000), 'more than 512 characters'],
])('the volume of a name that no peer may have is refused, in a short sentence', (name, why) => {
  for (const gain of [1, 9]) {
    const { message } = faultOf({ type: 'configure', volume: { bob: 1, [name]: gain } });
    expect(message).toContain(why);
    expect(message.length).toBeLessThan(200);
  }
});

/** A `produce` whose codec has one parameter. */
const produceWith = (name: string, value: unknown) => {
  const parameters = { [name]: value };
  const codec = { mimeType: 'audio/opus', payloadType: 100, clockRate: 48_000, parameters };
  return {
    type: 'produce',
    transport_id: 't',
    kind: 'audio',
    rtp_parameters: { codecs: [codec] },
  };
};

test.each([
  ['x', 1],
  ['x'.repeat(64), 'text'],
])('a parameter of a codec has a name of 1 to 64 characters', (name, value) => {
  expect(parse(produceWith(name, value))).toEqual(produceWith(name, value));
});

test.each([
  ['x'.repeat(65), 1],
  ['x'.repeat(60_000), 1],
  ['', 1],
  ['a\nb', 1],
  ['x', 'a\nb'],
])('a parameter of a codec with another name or value is refused', (name, value) => {
  const { message } = faultOf(produceWith(name, value));
  expect(message).toContain('produce: rtp_parameters.codecs.0.parameters');
});

test.each([
  [{ id: 'a1' }, 'a1'],
  [{ type: 5, id: 'a1' }, 'a1'],
  [{ type: null, id: 7 }, 7],
  [{ id: 'x'.repeat(129) }, 'x'.repeat(128)],
  [{ id: 2 ** 53 }, undefined],
  [{ id: {} }, undefined],
  [{ type: 'leave', id: null }, undefined],
  [{}, undefined],
  [[], undefined],
])('a message without a type is answered under its id: %j', (message, id) => {
  expect(faultOf(message)).toMatchObject({ code: 'bad_message', replyTo: id });
});

describe('parseClientMessage()', () => {
  test.each([
    [{ type: 'join', room: 'a' }],
    [{ type: 'join', room: 'a', media: 'webrtc', id: '7' }],
    [{ type: 'leave' }],
    [{ type: 'leave', unknown_field: [1, 2] }],
  ])('takes %j', (message) => {
    expect(parseClientMessage(JSON.stringify(message))).toEqual(message);
  });

  test.each([
    ['{"type":"join"', 'Not JSON'],
    ['"join"', 'JSON object'],
    ['null', 'JSON object'],
    ['[]', 'JSON object'],
    ['{}', 'JSON object'],
    ['{"type":7}', 'JSON object'],
    ['{"type":"joyn"}', 'Unknown type'],
    ['{"type":"constructor"}', 'Unknown type'],
    ['{"type":"join"}', 'room'],
    ['{"type":"join","room":7}', 'room'],
    ['{"type":"join","room":"a","media":"video"}', 'media'],
    ['{"type":"produce","transport_id":"t","kind":"audio","rtp_parameters":"x"}', 'rtp_parameters'],
  ])('refuses %s', (text, reason) => {
    expect(() => parseClientMessage(text)).toThrow(reason);
  });

  test.each(['12345678901234567891', '-9007199254740992', '1e300'])(
    'refuses the id %s, which an answer could not carry as it came',
    (id) => {
      const refuse = () => parseClientMessage(`{"type":"leave","id":${id}}`);
      expect(refuse).toThrow('send it as a string');
      expect(refuse).toThrow(expect.objectContaining({ replyTo: undefined }));
    },
  );

  test.each([9007199254740991, 0, -7, 1764168585.123])('takes the id %d', (id) => {
    expect(parseClientMessage(JSON.stringify({ type: 'leave', id }))).toMatchObject({ id });
  });

  test('carries the id of a message that it refuses', () => {
    expect(() => parseClientMessage('{"type":"join","id":"42"}')).toThrow(
      expect.objectContaining({ replyTo: '42', code: 'bad_message' }),
    );
  });
});
