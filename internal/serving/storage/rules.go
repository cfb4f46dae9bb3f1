package storage

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"strings"

	"github.com/klauspost/compress/zstd"
)

// All implementations of Store use the functions of this file. So they refuse the same arguments
// with the same errors, and keep snapshots in the same form.

// CheckID returns an ErrInvalid if a text cannot be the id of a session. An id has no capital
// letters, because it is part of a file's name, and some file systems do not distinguish A and a.
func CheckID(id string) error {
	foreign := func(r rune) bool { return (r < '0' || r > '9') && (r < 'a' || r > 'z') && r != '-' }
	if id == "" || len(id) > MaxIDBytes || id[0] == '-' || strings.ContainsFunc(id, foreign) {
		return Invalid("id %.80q, expected 1 to %d characters of 0-9 a-z -, beginning with "+
			"0-9 or a-z", id, MaxIDBytes)
	}
	return nil
}

// CheckHead returns an ErrInvalid if a head is invalid.
func CheckHead(head []byte) error {
	if len(head) > MaxHeadBytes {
		return Invalid("head of %d bytes, expected at most %d", len(head), MaxHeadBytes)
	}
	return nil
}

func checkOffset(at int64) error {
	if at < 0 {
		return Invalid("offset %d, expected 0 or more", at)
	}
	return nil
}

// CheckCreate returns an ErrInvalid if the arguments of Create are invalid.
func CheckCreate(id string, head []byte, start int64) error {
	return cmp.Or(CheckID(id), checkOffset(start), CheckHead(head))
}

// CheckFork returns an ErrInvalid if the arguments of Fork are invalid.
func CheckFork(id string, head []byte, c Cut) error {
	if err := CheckCreate(id, head, c.Start); err != nil {
		return err
	}
	if c.End < c.Start {
		return Invalid("a fork from offset %d to %d, expected an end at or after the "+
			"start", c.Start, c.End)
	}
	return nil
}

// CheckRecords returns an ErrInvalid if records cannot be appended at an offset.
func CheckRecords(at int64, records []Record) error {
	if err := checkOffset(at); err != nil {
		return err
	}
	if len(records) == 0 {
		return Invalid("no records, expected at least one")
	}
	for i := range records {
		n := len(records[i].Text)
		if n < 1 || n > MaxTextBytes {
			return Invalid("text of record %d has %d bytes, expected 1 to %d", i, n, MaxTextBytes)
		}
		if err := records[i].CheckSkipped(); err != nil {
			return Invalid("record %d: %v", i, err)
		}
		if at > math.MaxInt64-int64(n) {
			return Invalid("offset %d plus %d bytes, expected at most %d", at, n,
				int64(math.MaxInt64))
		}
		at += int64(n)
	}
	return nil
}

// CheckSkipped returns an error for the first skipped line that is not in the record's text, or is
// not in order.
func (r *Record) CheckSkipped() error {
	if len(r.Skipped) == 0 {
		return nil
	}
	if !r.ByLine {
		return fmt.Errorf("found %d unlearned lines, expected none in a record that is not "+
			"learned by lines",
			len(r.Skipped))
	}
	ends := bytes.Count(r.Text, []byte{'\n'})
	for i, n := range r.Skipped {
		if int(n) >= ends || i > 0 && n <= r.Skipped[i-1] {
			return fmt.Errorf("a record has %d lines, and entry %d in its list of unlearned "+
				"lines is %d, expected numbers below the number of lines, in ascending order",
				ends, i, n)
		}
	}
	return nil
}

// CheckSnapshot returns an ErrRange or ErrInvalid if a session cannot have another snapshot at a
// given offset, parameter `at`. The session's log has the offsets from start to end. Parameter has
// is the number of the session's snapshots.
func CheckSnapshot(id string, at, start, end int64, has int) error {
	if at < start || at > end {
		return &RangeError{Session: id, Offset: at, Start: start, End: end}
	}
	if has >= SnapshotsMax {
		return Invalid("too many snapshots of session %s, expected at most %d", id, SnapshotsMax)
	}
	return nil
}

func (r Record) withoutText() *Record {
	r.Text = nil
	return &r
}

const (
	// snapshotLevel is the fastest compression level: states are floats, which a higher level
	// hardly makes smaller.
	snapshotLevel  = zstd.SpeedFastest
	snapshotWindow = 1 << 20
)

// CompressSnapshot calls the function `write`, compresses its output in the form of a stored
// snapshot, and writes the result to the parameter `to`. It fails when the context ends.
func CompressSnapshot(ctx context.Context, to io.Writer, write func(io.Writer) error) error {
	z, err := zstd.NewWriter(&contextWriter{ctx, to}, zstd.WithEncoderLevel(snapshotLevel),
		zstd.WithWindowSize(snapshotWindow), zstd.WithEncoderConcurrency(1))
	if err != nil {
		return err
	}
	if err := write(z); err != nil {
		z.Close()
		return err
	}
	return z.Close()
}

type contextWriter struct {
	ctx context.Context
	w   io.Writer
}

func (c *contextWriter) Write(p []byte) (int, error) {
	if err := c.ctx.Err(); err != nil {
		return 0, err
	}
	return c.w.Write(p)
}

// DecompressSnapshot decompresses the output of CompressSnapshot, and calls the function `read`
// with the result.
func DecompressSnapshot(from io.Reader, read func(io.Reader) error) error {
	z, err := zstd.NewReader(from, zstd.WithDecoderConcurrency(1),
		zstd.WithDecoderMaxWindow(snapshotWindow))
	if err != nil {
		return fmt.Errorf("storage: %w", err)
	}
	defer z.Close()
	return read(z)
}

// The charges estimate the disk space that the parts of a session use in a data folder, in bytes.
const (
	// SessionCharge is the charge of a session without its head, log and snapshots.
	SessionCharge = 12 << 10
	// RecordCharge is the largest charge of a record without its text. Lines that are not learned
	// (SkippedBytes each) and Record.Words (WordsBytes) are charged separately.
	RecordCharge = 24 + 4 + 1 + 4*8
)

// Metered is a Store that reports the disk usage of its sessions.
type Metered interface {
	// Meter calls the function charged with the charge of every session, in bytes. From then on the
	// store calls charged after each change of a charge, before the method that made the change
	// returns. bytes is 0 if the session was deleted. A later call of Meter replaces the function.
	// charged must return soon and must not call the store, because the store holds locks.
	Meter(charged func(id string, bytes int64))
	// Usage returns the disk usage of the store, and the free space.
	Usage() Usage
}

// Usage is the disk usage of a data folder, in bytes.
type Usage struct {
	Sessions  int64 // files of sessions; a shared file counts once
	Temporary int64 // files of unfinished snapshots
	// Left is the free space of the folder's file system, whose size is All. Both are 0 if they are
	// not known.
	Left, All int64
}

// Backuper is a Store that can make a backup of its content at one moment, while it is in use.
type Backuper interface {
	// Backup makes a backup, which the caller must close. The error is ErrBackup if another backup
	// is not closed yet.
	Backup(ctx context.Context) (Backup, error)
}

// Backup is the content of a store at one moment, as one file.
type Backup interface {
	ID() string  // unique among backups
	Size() int64 // size of the file, in bytes
	// Open returns a reader of the file. Its error is ErrClosed after the backup was closed.
	Open() io.ReadSeekCloser
	// Close ends the backup and its readers, and removes the files that were made for the backup.
	Close() error
}

// ErrBackup says that a backup is running already: a folder can have only one at a time.
var ErrBackup = errors.New("another backup is running")

// ErrNoBackup says that a file to restore is no backup, or is incomplete or damaged.
var ErrNoBackup = errors.New("not a complete backup")
