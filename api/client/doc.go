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
//	offset     Every request states the expected offset of the session. The server refuses
//	           any other offset, and returns the actual offset.
//	batch      Every request has a batch of text. The client keeps the batch until the
//	           session has the text.
//	again      After a failure, the client sends the batch again. The server's refusal says
//	           how much of the batch the session has, and the client sends the rest.
//	replay     The client recovers lost events by feeding the same text to a temporary fork
//	           of the session. The events of the fork are bit-identical.
//
// # Units
//
// Offsets and sizes are in bytes. Bits are sums of -log2 of probabilities. Fields whose names end
// in Ms or Seconds are in milliseconds or seconds. Log-probabilities are natural logarithms.
package client
