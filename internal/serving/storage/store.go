// Package storage keeps sessions: the log of accepted text, the snapshots of states, and the right
// to write them. It does not interpret them. Package folder keeps them in a data folder, package
// postgres in a database, and Memory in the process.
package storage

import (
	"context"
	"io"
)

// Store is what a server of sessions needs from its storage. Package storetest tests
// implementations. All methods are safe for concurrent use. A context ends a wait, but not a write
// that has begun: an error of the context means that nothing was written.
//
// Every write has the epoch of the caller's claim on the session. A write under another epoch than
// the session's is refused (ErrFenced), so that only the last to claim can write.
//
// A store that is reached over a network has two more errors: ErrUnavailable from every method, and
// ErrUnknown from those that write.
type Store interface {
	// Durable reports whether data outlives this process. If not, nothing is ever recovered from
	// the store: the states of its sessions must stay in memory, and their text uses memory of this
	// process.
	Durable() bool

	// Create makes a session with an empty log that starts at an offset. That is 0 unless the text
	// before it exists only as a snapshot. The caller has the first claim. The error is ErrExists
	// if the session exists. A store may also return it for a deleted session while forks share its
	// data, or while some of its data is not erased yet.
	Create(ctx context.Context, id string, head []byte, start int64) (epoch uint64, err error)
	// Fork makes a session as Create does. Its log is a part of another session's log, and its
	// snapshots are those of that part. The part begins and ends at borders of records. The two
	// share the data, and neither is affected by changes to the other. The error is ErrRange if the
	// log does not reach so far, and ErrInvalid if an offset is within a record.
	Fork(ctx context.Context, from, id string, head []byte, cut Cut) (epoch uint64, err error)
	// Claim gives the caller the right to write, and returns the session.
	Claim(ctx context.Context, id string) (Session, error)
	// Get returns what Claim does, without a claim. For a damaged session it returns the remaining
	// part with its Err; Claim refuses such a session.
	Get(ctx context.Context, id string) (Session, error)
	// List returns up to limit sessions in the order of the bytes of their ids, after the given id
	// ("": from the first).
	List(ctx context.Context, after string, limit int) ([]Session, error)
	// SetHead replaces the head.
	SetHead(ctx context.Context, id string, epoch uint64, head []byte) error
	// Delete removes the session with all of its data. Data that forks share is removed with the
	// last of them. Epoch 0 matches every epoch, so that a damaged session can be deleted. If the
	// session is gone after an error, the remaining data cannot be read any more: the next Delete
	// or Open erases it.
	Delete(ctx context.Context, id string, epoch uint64) error

	// Append adds at least one record to a log that ends at an offset, and returns when the records
	// are durable. With an error other than ErrUnknown none is added. If the log ends elsewhere,
	// the error is a SequenceError.
	Append(ctx context.Context, id string, epoch uint64, at int64, records ...Record) error
	// Read visits the records from an offset to the end of the log when Read begins. The first one
	// is the record with the offset. A record's text is valid until visit returns. visit may call
	// the store. If a record is damaged or missing, Read visits those before it and returns a
	// CorruptError.
	Read(ctx context.Context, id string, from int64, visit func(at int64, r Record) error) error
	// Trim drops the records that end at or before an offset. The offset is at most that of the
	// newest snapshot.
	Trim(ctx context.Context, id string, epoch uint64, before int64) error

	// WriteSnapshot keeps what write writes as the state at an offset of the log, until the
	// snapshot is dropped. The error is ErrExists if there is one at that offset, or a fork still
	// shares an earlier one there. It is ErrRange if the offset is not within the log, and
	// ErrInvalid if the session has SnapshotsMax already.
	WriteSnapshot(ctx context.Context, id string, epoch uint64, at int64,
		write func(io.Writer) error) error
	// Snapshots returns the snapshots, the oldest first.
	Snapshots(ctx context.Context, id string) ([]Snapshot, error)
	// ReadSnapshot calls read with the written bytes after it has verified their checksum. If they
	// are damaged, the error is a CorruptError.
	ReadSnapshot(ctx context.Context, id string, at int64, read func(io.Reader) error) error
	// DropSnapshot removes a snapshot that newer ones replace, or that is damaged.
	DropSnapshot(ctx context.Context, id string, epoch uint64, at int64) error

	// Close waits for writes that were accepted. Every later call returns ErrClosed.
	Close() error
}

// pageSessions is how many sessions Each reads from a store at once.
const pageSessions = 1000

// Each visits all sessions of a store in the order of their ids.
func Each(ctx context.Context, s Store, visit func(Session) error) error {
	for after := ""; ; {
		page, err := s.List(ctx, after, pageSessions)
		if err != nil || len(page) == 0 {
			return err
		}
		for _, found := range page {
			if err := visit(found); err != nil {
				return err
			}
		}
		after = page[len(page)-1].ID
	}
}

// CopySnapshot returns a function for WriteSnapshot that copies a snapshot from another store.
func CopySnapshot(ctx context.Context, from Store, id string, at int64) func(io.Writer) error {
	return func(w io.Writer) error {
		return from.ReadSnapshot(ctx, id, at, func(r io.Reader) error {
			_, err := io.Copy(w, r)
			return err
		})
	}
}

// Session describes a session without reading its log.
type Session struct {
	ID    string
	Epoch uint64
	Head  []byte
	Start int64   // offset of the first record
	End   int64   // offset of the next record
	Last  *Record // the last record, without its text; nil if there is none
	// LastAt is the offset of the last record; 0 if there is none.
	LastAt int64
	// Taken says that the claim took the session from a server whose lease had lapsed; see Shared.
	Taken bool
	// Err is the session's damage, or nil. With damage the other fields may be incomplete: only ID
	// is set if the session's entry cannot be read.
	Err error
}

// Record is a piece of text that was accepted at once, and the session's running totals after it.
// So the last record has the totals, and a replay can check every record.
type Record struct {
	UnixMS int64 // when it was accepted
	// Bits is the sum of -log2 p over the session's text up to the end of this record.
	Bits        float64
	Baseline    float64 // Bits under the model without adaptation, if HasBaseline
	HasBaseline bool
	// ByLine says that the session learns from the text by lines. Skipped are the lines that it
	// does not learn, by the index of their newline in the text, from 0, ascending. Without ByLine
	// it is empty.
	ByLine  bool
	Skipped []uint16
	// Continued is the number of bytes in the session's text, up to the end of this record, that
	// continue a UTF-8 character. It is 0 in a session of words.
	Continued int64
	// Words counts the tokens of a session of words; nil in a session of bytes, where offsets count
	// them.
	Words *Words
	Text  []byte
}

// Words has the counts of a session of words up to the end of a record: complete tokens, and tokens
// for words unknown to the model.
type Words struct {
	Bytes, Chars, Tokens                int64
	Unknown, UnknownBytes, UnknownChars int64
	UnknownBits, UnknownBaseline        float64 // parts of Record.Bits and Record.Baseline
}

// Snapshot describes a session's state at an offset of its log, as the store keeps it.
type Snapshot struct {
	Offset int64
	Bytes  int64    // compressed size
	SHA256 [32]byte // hash of the compressed bytes
}

// Cut is the part of a session that a fork shares: offsets of the log.
type Cut struct{ Start, End int64 }

// Limits.
const (
	MaxIDBytes   = 64
	MaxHeadBytes = 64 << 10
	MaxTextBytes = 1 << 20 // text of one record
	SnapshotsMax = 1 << 11 // snapshots of one session
	SkippedMax   = 1 << 16 // lines of a record that are not learned
	SkippedBytes = 2       // bytes for each of these lines
	WordsBytes   = 8 * 8   // bytes for Record.Words
)
