// Package storage keeps sessions: the log of accepted text, the snapshots of states, and the right
// to write both. It does not interpret texts and states. Package folder keeps sessions in a data
// folder, package postgres in a database, and Memory in the process.
package storage

import (
	"context"
	"io"
)

// Store is what a server of sessions needs from its storage. Package storetest tests
// implementations. All methods are safe for concurrent use. A context ends a wait, but not a write
// that has begun: an error of the context means that nothing was written.
//
// Every write has the epoch of the caller's claim on the session. A write with another epoch than
// the session's is refused (ErrFenced), so that only the last caller of Claim can write.
//
// A store that is reached over a network may also return ErrUnavailable from every method, and
// ErrUnknown from methods that write.
type Store interface {
	// Durable reports whether data outlives this process. If it does not, a session cannot be
	// loaded from the store again. So its state must stay in memory, and its text uses memory of
	// this process.
	Durable() bool

	// Create makes a session with an empty log that starts at the offset start. start is 0, unless
	// the earlier text exists only as a snapshot. The caller has the first claim. The error is
	// ErrExists if the session exists. It may also be ErrExists if a session with this id was
	// deleted, but some of its data remains, for example in forks.
	Create(ctx context.Context, id string, head []byte, start int64) (epoch uint64, err error)
	// Fork makes a session as Create does. Its log is a part of another session's log, and its
	// snapshots are those of that part. The part begins and ends at borders of records. The two
	// sessions share the data, but a change to one does not affect the other. The error is ErrRange
	// if the part is not within the log, and ErrInvalid if it begins or ends within a record.
	Fork(ctx context.Context, from, id string, head []byte, cut Cut) (epoch uint64, err error)
	// Claim gives the caller the right to write to a session, and takes that right from the
	// previous caller.
	Claim(ctx context.Context, id string) (Session, error)
	// Get returns the same description as Claim, without a claim. For a damaged session it returns
	// what can be read, and sets Err to the damage. Claim refuses a damaged session.
	Get(ctx context.Context, id string) (Session, error)
	// List returns up to limit sessions whose ids are after the given id, in bytewise order of the
	// ids. With "" it begins with the first session.
	List(ctx context.Context, after string, limit int) ([]Session, error)
	// SetHead replaces the head.
	SetHead(ctx context.Context, id string, epoch uint64, head []byte) error
	// Delete removes the session with all of its data. Data that forks share is removed with the
	// last session that shares it. Epoch 0 matches every epoch, so that a damaged session can be
	// deleted. After an error the session may be gone although some of its data is not erased. The
	// next Delete or Open then erases that data.
	Delete(ctx context.Context, id string, epoch uint64) error

	// Append adds records, at least one, to a log that ends at the offset at. It returns when the
	// records are durable. After an error other than ErrUnknown no record was added. The error is a
	// SequenceError if the log ends at another offset.
	Append(ctx context.Context, id string, epoch uint64, at int64, records ...Record) error
	// Read visits the records that the log has when Read begins. The first visited record contains
	// the byte at the offset given by the parameter from. A record's text is valid until visit
	// returns. visit may call the store. If a record is damaged or missing, Read visits the records
	// before it and returns a CorruptError.
	Read(ctx context.Context, id string, from int64, visit func(at int64, r Record) error) error
	// Trim drops the records that end at or before an offset. The offset is at most that of the
	// newest snapshot.
	Trim(ctx context.Context, id string, epoch uint64, before int64) error

	// WriteSnapshot keeps the output of the function write as the state at an offset of the log,
	// until the snapshot is dropped. The error is ErrExists if the session has a snapshot at that
	// offset. It may also be ErrExists if a fork still shares a dropped snapshot of that offset. It
	// is ErrRange if the offset is not within the log, and ErrInvalid if the session has
	// SnapshotsMax snapshots.
	WriteSnapshot(ctx context.Context, id string, epoch uint64, at int64,
		write func(io.Writer) error) error
	// Snapshots returns the snapshots, the oldest first.
	Snapshots(ctx context.Context, id string) ([]Snapshot, error)
	// ReadSnapshot verifies the checksum of a snapshot, and then calls read with its bytes. If the
	// snapshot is damaged, the error is a CorruptError. If it is replaced meanwhile, ReadSnapshot
	// reads the old or the new snapshot, or returns ErrUnavailable.
	ReadSnapshot(ctx context.Context, id string, at int64, read func(io.Reader) error) error
	// DropSnapshot removes a snapshot that is damaged, or that newer snapshots replace.
	DropSnapshot(ctx context.Context, id string, epoch uint64, at int64) error

	// Close waits for writes that have begun. Every later call returns ErrClosed.
	Close() error
}

// pageSessions is the number of sessions that the function Each reads from a store at once.
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

// CopySnapshot returns a function that writes a snapshot of one store, parameter `from`. The
// function can be passed to WriteSnapshot of another store.
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
	// Err is the session's damage, or nil. If the session is damaged, other fields may be
	// incomplete; only ID is certainly set.
	Err error
}

// Record is a piece of text that was accepted at once, and the session's running totals after it.
// So the last record has the totals of the session, and a replay can check the totals of each
// record.
type Record struct {
	UnixMS int64 // when the text was accepted
	// Bits is the sum of -log2 p over the session's text up to the end of this record.
	Bits        float64
	Baseline    float64 // like Bits, of the static model; valid if HasBaseline is true
	HasBaseline bool
	// ByLine says that the session learns from the text by lines. Skipped has the lines that the
	// session does not learn, in ascending order. The number n means the line that ends with
	// newline n of the text, counted from 0. Skipped is empty without ByLine.
	ByLine  bool
	Skipped []uint16
	// Continued is the number of bytes in the session's text, up to the end of this record, that
	// continue a UTF-8 character. It is 0 if the session's tokens are words.
	Continued int64
	// Words counts the tokens of a session whose tokens are words. It is nil in a session of bytes,
	// where the offset is the number of tokens.
	Words *Words
	Text  []byte
}

// Words has the counts of a session whose tokens are words, up to the end of a record: complete
// tokens, and tokens for words that the model does not know.
type Words struct {
	Bytes, Chars, Tokens                int64
	Unknown, UnknownBytes, UnknownChars int64
	UnknownBits, UnknownBaseline        float64 // parts of Bits and Baseline due to unknown words
}

// Snapshot describes a session's state at an offset of its log, as the store keeps it.
type Snapshot struct {
	Offset int64
	Bytes  int64    // compressed size
	SHA256 [32]byte // hash of the compressed bytes
}

// Cut is the part of a session that a fork shares, from offset Start to offset End of the log.
type Cut struct{ Start, End int64 }

// Limits and sizes.
const (
	MaxIDBytes   = 64
	MaxHeadBytes = 64 << 10
	MaxTextBytes = 1 << 20 // maximum number of bytes of text in one record
	SnapshotsMax = 1 << 11 // maximum number of snapshots of one session
	SkippedMax   = 1 << 16 // maximum number of lines in Record.Skipped
	SkippedBytes = 2       // stored bytes for each line in Record.Skipped
	WordsBytes   = 8 * 8   // stored bytes for Record.Words
)
