// What nearly every source file of mediasoup-worker includes and takes the longest to parse, compiled once:
// with it all sources together compile in half the time. Nothing here is new to them, only earlier.
#pragma once
#include "common.hpp"
#include "FBS/message.h"
#include <ankerl/unordered_dense.h>
#include <chrono>
#include <flatbuffers/flatbuffers.h>
#include <openssl/ssl.h>
#include <sstream>
#include <string>
#include <uv.h>
#include <vector>
