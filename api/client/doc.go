// Package client speaks to a server of lmserve from Go.
//
// A [Client] has a method for each thing that one does with sessions: make or find them, score text
// with them, complete text, fork, export; and one that backs all of them up. Types of requests and
// answers are those of package api: `go doc github.com/lmserve/lmserve/api Session` shows what each
// field means. Errors of the server are of type [Error].
//
// # Feeding exactly once
//
// [Client.Feed] and [Feeder] feed a stream to a session so that each byte of it is in the session
// once, whatever happens to connections, proxies and the server in between, and so that each event
// is seen once. They work like this:
//
//	offset     every request states the offset that it expects the session to be at; the server
//	           refuses it where the session is elsewhere, and says where
//	batch      a request has a batch of text, which is kept until the session has it
//	again      after a failure the same batch is sent again, and the refusal says how much of it the
//	           session had taken in: the feeder goes on from there
//	replay     events that were lost on the way are made again: a fork of the session from before
//	           the text gives the same events for it, to the bit, and is deleted afterwards
//
// # Units
//
// Offsets and sizes are in bytes, bits are sums of -log2 of probabilities, and fields that end in
// Ms and Seconds are in these units. Log-probabilities are natural logarithms.
package client
