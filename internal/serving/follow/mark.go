package follow

import (
	"crypto/sha256"
	"encoding/hex"
	"io"
)

// sampleBytes is the maximum number of bytes in a sample of a file.
const sampleBytes = 256

// Mark identifies a file, also under another name, by its first bytes and by the bytes before a
// position. It contains hashes, but no text of the file.
type Mark struct {
	ID   string `json:"id,omitempty"` // device and inode, if the system has them
	Head Sample `json:"head"`         // the first bytes of the file
	Tail Sample `json:"tail"`         // the bytes before the position up to which the file was read
}

// Sample is a hash of bytes of a file.
type Sample struct {
	Offset int64  `json:"offset"`         // offset of the first byte
	Bytes  int    `json:"bytes"`          // at most sampleBytes
	Hash   string `json:"hash,omitempty"` // SHA-256, in hexadecimal; empty if Bytes is 0
}

// sampleOf returns the sample of text at an offset.
func sampleOf(offset int64, text []byte) Sample {
	if len(text) == 0 {
		return Sample{Offset: offset}
	}
	sum := sha256.Sum256(text)
	return Sample{Offset: offset, Bytes: len(text), Hash: hex.EncodeToString(sum[:])}
}

// Valid reports whether a sample can come from a file.
func (s Sample) Valid() bool {
	hash, err := hex.DecodeString(s.Hash)
	size := 0
	if s.Bytes > 0 {
		size = sha256.Size
	}
	return err == nil && len(hash) == size && s.Offset >= 0 &&
		s.Bytes >= 0 && s.Bytes <= sampleBytes
}

// fits reports whether a file has the bytes of the sample.
func (s Sample) fits(f io.ReaderAt) bool {
	text := make([]byte, s.Bytes)
	n, _ := f.ReadAt(text, s.Offset) // after a read error, n is too small and the file does not fit
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
	// Text is clean text: whole lines, or a part of a long line. It is valid until the next call.
	// It is empty if all bytes read were skipped.
	Text []byte
	// Skip is the number of bytes of clean text after From that are left out, because they were
	// returned before a restart.
	Skip int64
	// File is the file's number among the files that a Follower has opened; the first has number 1.
	File int
	// From and To are the positions in the file where Text begins and ends. They are equal if Text
	// is a newline that was added after the last line of the file.
	From, To int64
	// Mark identifies the file.
	Mark Mark
	// Cursor is the position of the journal's entry with which Text and the skipped text begin.
	// Files have no cursor.
	Cursor string
}

// Place is where a Follower begins to read.
type Place struct {
	Mark   Mark
	Offset int64
	Skip   int64 // bytes of clean text after the offset that were already returned
	// the line before the offset lacks a newline in the file, and a newline was returned for it
	Ended  bool
	Cursor string // in a journal, the cursor of an entry, instead of the offset
}
