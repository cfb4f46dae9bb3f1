package follow

import (
	"crypto/sha256"
	"encoding/hex"
	"io"
)

// sampleBytes is the maximum number of bytes in a sample of a file.
const sampleBytes = 256

// Mark identifies a file, even after renaming, by hashes of its first bytes and of the bytes before
// a position. It contains no text of the file.
type Mark struct {
	ID   string `json:"id,omitempty"` // device and inode, if the system has them
	Head Sample `json:"head"`         // hash of the first bytes of the file
	Tail Sample `json:"tail"`         // hash of the bytes before the position
}

// Sample is a hash of bytes of a file.
type Sample struct {
	Offset int64  `json:"offset"`         // position of the first hashed byte in the file
	Bytes  int    `json:"bytes"`          // number of hashed bytes, at most sampleBytes
	Hash   string `json:"hash,omitempty"` // SHA-256, in hexadecimal; empty if Bytes is 0
}

func sampleOf(offset int64, text []byte) Sample {
	if len(text) == 0 {
		return Sample{Offset: offset}
	}
	sum := sha256.Sum256(text)
	return Sample{Offset: offset, Bytes: len(text), Hash: hex.EncodeToString(sum[:])}
}

// Valid reports whether the fields of a sample are consistent.
func (s Sample) Valid() bool {
	hash, err := hex.DecodeString(s.Hash)
	size := 0
	if s.Bytes > 0 {
		size = sha256.Size
	}
	return err == nil && len(hash) == size && s.Offset >= 0 &&
		s.Bytes >= 0 && s.Bytes <= sampleBytes
}

func (s Sample) fits(f io.ReaderAt) bool {
	text := make([]byte, s.Bytes)
	n, _ := f.ReadAt(text, s.Offset) // a read error makes n too small, so the result is false
	return n == s.Bytes && sampleOf(s.Offset, text) == s
}

// fits reports whether a file has the content of the mark and is at least offset bytes long.
func (m Mark) fits(f io.ReaderAt, offset int64) bool {
	if offset > 0 {
		if n, _ := f.ReadAt(make([]byte, 1), offset-1); n == 0 {
			return false
		}
	}
	return m.Head.fits(f) && m.Tail.fits(f)
}

// Piece is a part of a followed file.
type Piece struct {
	// Text is clean text: whole lines, or a part of a long line. It is valid until the next piece
	// is read. It is empty if all bytes were skipped.
	Text []byte
	// Skip is the number of clean bytes left out of Text, because they were returned before a
	// restart.
	Skip int64
	// File is the file's number among the files that a Follower has opened; the first has number 1.
	File int
	// From and To are the positions in the file where Text begins and ends. They are equal if Text
	// is a newline that was added after the last line of the file.
	From, To int64
	// Mark identifies the file at the position To.
	Mark Mark
	// Cursor identifies the journal entry at which the piece begins. It is empty for files.
	Cursor string
}

// Place is where a Follower begins to read.
type Place struct {
	Mark   Mark
	Offset int64
	Skip   int64 // number of clean bytes after the offset that were already returned
	// whether a newline was returned for a last line that has none in the file
	Ended  bool
	Cursor string // the cursor of a journal entry; the journal has no offsets
}
