// Package client is the Go client of an lmserve server.
//
// A [Client] has methods to create or find sessions, score text, complete text, fork, export, and
// back up all sessions. The types of requests and answers are those of package api: `go doc
// github.com/lmserve/lmserve/api Session` explains each field. Errors of the server have type
// [Error].
//
// # Feeding exactly once
//
// [Client.Feed] and [Feeder] feed a stream to a session exactly once. Each byte enters the session
// once, and each event is reported once, even if connections break or proxies and the server fail.
// The method has four parts:
//
//	offset     every request states the expected offset of the session; the server refuses
//	           any other offset, and returns the actual offset
//	batch      a request has a batch of text, which is kept until the session has it
//	again      after a failure the same batch is sent again; the refusal says how much of it
//	           the session has, and the feeder continues from there
//	replay     lost events are computed again: a temporary fork of the session from before
//	           the text gives bit-identical events
//
// # Units
//
// Offsets and sizes are in bytes. Bits are sums of -log2 of probabilities. Fields whose names end
// in Ms or Seconds are in milliseconds or seconds. Log-probabilities are natural logarithms.
package client
