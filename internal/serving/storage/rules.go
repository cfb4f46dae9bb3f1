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

// This file has what the implementations of Store share, so that all refuse the same arguments with
// the same errors, and keep snapshots in the same form.

// CheckID says what is wrong with the id of a session (ErrInvalid). An id is part of a file's name,
// on file systems that take A for a as well.
func CheckID(id string) error {
	foreign := func(r rune) bool { return (r < '0' || r > '9') && (r < 'a' || r > 'z') && r != '-' }
	if id == "" || len(id) > MaxIDBytes || id[0] == '-' || strings.ContainsFunc(id, foreign) {
		return Invalid("id %.80q, expected 1 to %d of 0-9 a-z -, the first not -", id, MaxIDBytes)
	}
	return nil
}

// CheckHead says what is wrong with a head (ErrInvalid).
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

// CheckCreate says what is wrong with the arguments of Create (ErrInvalid).
func CheckCreate(id string, head []byte, start int64) error {
	return cmp.Or(CheckID(id), checkOffset(start), CheckHead(head))
}

// CheckFork says what is wrong with the arguments of Fork (ErrInvalid).
func CheckFork(id string, head []byte, c Cut) error {
	if err := CheckCreate(id, head, c.Start); err != nil {
		return err
	}
	if c.End < c.Start {
		return Invalid("a fork from offset %d to %d, expected them in order", c.Start, c.End)
	}
	return nil
}

// CheckRecords says what is wrong with records that go to an offset (ErrInvalid).
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
			return Invalid("offset %d, expected that %d bytes more are at most %d", at, n,
				int64(math.MaxInt64))
		}
		at += int64(n)
	}
	return nil
}

// CheckSkipped says which of the lines that are not learnt is none of the record's text, or is not
// in order.
func (r *Record) CheckSkipped() error {
	if len(r.Skipped) == 0 {
		return nil
	}
	if !r.ByLine {
		return fmt.Errorf("record that is not learnt by lines with %d lines that are not learnt",
			len(r.Skipped))
	}
	ends := bytes.Count(r.Text, []byte{'\n'})
	for i, n := range r.Skipped {
		if int(n) >= ends || i > 0 && n <= r.Skipped[i-1] {
			return fmt.Errorf("record of %d lines, of which number %d of those that are not "+
				"learnt is "+
				"line %d, expected lines of its text in ascending order", ends, i, n)
		}
	}
	return nil
}

// CheckSnapshot says why a session whose log has the offsets from start to end, and which has so
// many snapshots already, cannot have one more at an offset (ErrRange, ErrInvalid).
func CheckSnapshot(id string, at, start, end int64, has int) error {
	if at < start || at > end {
		return &RangeError{Session: id, Offset: at, Start: start, End: end}
	}
	if has >= SnapshotsMax {
		return Invalid("one more snapshot of session %s, expected at most %d", id, SnapshotsMax)
	}
	return nil
}

// withoutText is a copy that needs no transaction.
func (r Record) withoutText() *Record {
	r.Text = nil
	return &r
}

const (
	// A state is rows of floats, which hardly get smaller by trying harder.
	snapshotLevel  = zstd.SpeedFastest
	snapshotWindow = 1 << 20
)

// CompressSnapshot writes what write writes to a file in the form that snapshots are kept in, until
// the context ends.
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

// contextWriter writes until its context ends.
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

// DecompressSnapshot hands read what CompressSnapshot was given.
func DecompressSnapshot(from io.Reader, read func(io.Reader) error) error {
	z, err := zstd.NewReader(from, zstd.WithDecoderConcurrency(1),
		zstd.WithDecoderMaxWindow(snapshotWindow))
	if err != nil {
		return fmt.Errorf("storage: %w", err)
	}
	defer z.Close()
	return read(z)
}

// Charges of a session in a data folder, in bytes.
const (
	// SessionCharge is that of a session beside its head, its log and its snapshots.
	SessionCharge = 12 << 10
	// RecordCharge is that of a record beside its text, the lines that are not learned
	// (SkippedBytes each) and the account of words (WordsBytes), at most.
	RecordCharge = 24 + 4 + 1 + 4*8
)

// Metered is a Store that accounts what its sessions take on the disk.
type Metered interface {
	// Meter has charged told what every session is charged for, in bytes, and from then on of every
	// change, before the call that has made the change returns; 0 means that the session is gone.
	// It replaces who was told before. charged must return soon and must not call the store.
	Meter(charged func(id string, bytes int64))
	// Usage returns what the store takes in all, and what is left.
	Usage() Usage
}

// Usage is what a data folder takes on the disk, in bytes.
type Usage struct {
	Sessions  int64 // files of sessions, each counted once
	Temporary int64 // files of snapshots that are being made
	// Left is what is left of the file system that the folder is on, which has All. 0 of 0 is not
	// known.
	Left, All int64
}

// Backuper is a Store whose content can be had as one file, as of one moment, while it is at work.
type Backuper interface {
	// Backup makes a backup, which the caller closes. ErrBackup if there is one already.
	Backup(ctx context.Context) (Backup, error)
}

// Backup is the content of a store as of one moment, as a file.
type Backup interface {
	ID() string  // no two backups have the same
	Size() int64 // of the file, in bytes
	// Open begins to read. The reader's error is ErrClosed once the backup has ended.
	Open() io.ReadSeekCloser
	// Close ends the backup, under readers too, and removes what was kept for it alone.
	Close() error
}

// ErrBackup says that a folder has another backup, and has only one at a time.
var ErrBackup = errors.New("another backup is under way")

// ErrNoBackup says that what was to be restored is no backup, or a part of one, or a damaged one.
var ErrNoBackup = errors.New("not a whole backup")
