package sessionlog

import (
	"context"
	"io"
)

// This file has what the implementations of Store in other packages share with those of this one, so
// that all refuse the same arguments with the same errors, and keep snapshots in the same form.

// CheckCreate says what is wrong with the arguments of Create (ErrInvalid).
func CheckCreate(id string, head []byte, start int64) error { return checkCreate(id, head, start) }

// CheckFork says what is wrong with the arguments of Fork (ErrInvalid).
func CheckFork(id string, head []byte, c Cut) error { return checkFork(id, head, c) }

// CheckID says what is wrong with the id of a session (ErrInvalid).
func CheckID(id string) error { return checkID(id) }

// CheckHead says what is wrong with a head (ErrInvalid).
func CheckHead(head []byte) error { return checkHead(head) }

// CheckRecords says what is wrong with records that go to an offset (ErrInvalid).
func CheckRecords(at int64, records []Record) error { return checkRecords(at, records) }

// CheckSnapshot says why a session whose log has the offsets from start to end, and which has so
// many snapshots already, cannot have one more at an offset (ErrRange, ErrInvalid).
func CheckSnapshot(id string, at, start, end int64, has int) error {
	return checkSnapshot(id, at, extent{start, end}, has)
}

// NotFound is the error of a call for a session that the store does not have.
func NotFound(id string) error { return notFound(id) }

// SnapshotNotFound is the error of a call for a snapshot that the session does not have.
func SnapshotNotFound(id string, at int64) error { return snapshotNotFound(id, at) }

// SnapshotExists is the error of a snapshot at an offset that has one.
func SnapshotExists(id string, at int64) error { return snapshotExists(id, at) }

// WithinRecord is the error of a fork at an offset that lies within a record.
func WithinRecord(id string, at int64) error { return withinRecord(id, at) }

// Invalid is an ErrInvalid that says what was found, and what was expected.
func Invalid(format string, args ...any) error { return invalid(format, args...) }

// CompressSnapshot writes what write writes to a file in the form that snapshots are kept in, until
// the context ends.
func CompressSnapshot(ctx context.Context, to io.Writer, write func(io.Writer) error) error {
	return compress(&counter{ctx: ctx, w: to}, write)
}

// DecompressSnapshot hands read what CompressSnapshot was given.
func DecompressSnapshot(from io.Reader, read func(io.Reader) error) error {
	return decompress(from, read)
}
