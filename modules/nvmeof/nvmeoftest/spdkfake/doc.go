// Package spdkfake is an SPDK nvmf_tgt without storage: a JSON-RPC server with
// state on a Unix socket. It answers as SPDK v26.05 was recorded to answer
// (testdata/recordings.jsonl; a test replays them), traps included: changes that
// are half done when they answer an error, calls that are refused for no reason that
// is told, and calls that crash the process when they meet.
//
// It has hosts that connect and write, so that a test can show what a fence keeps
// out, and it can be told to die, to stall, to answer late or to be restarted, which
// forgets everything but what is on files, at any call.
package spdkfake
