package follow

import (
	"crypto/sha256"
	"encoding/hex"
	"io"
)

// sampleBytes is the most bytes of a file in a sample.
const sampleBytes = 256

// Mark identifies a file, also under another name, by its first bytes and by the bytes before a
// position. It holds hashes, and no text of the file.
type Mark struct {
	ID   string `json:"id,omitempty"` // device and inode, if the system has them
	Head Sample `json:"head"`         // the first bytes of the file
	Tail Sample `json:"tail"`         // the bytes before the position up to which it was read
}

// Sample is a hash of bytes of a file.
type Sample struct {
	Offset int64  `json:"offset"`         // offset of the first byte
	Bytes  int    `json:"bytes"`          // at most sampleBytes
	Hash   string `json:"hash,omitempty"` // SHA-256, in hexadecimal; empty for no bytes
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
	n, _ := f.ReadAt(text, s.Offset) // unreadable bytes do not fit
	return n == s.Bytes && sampleOf(s.Offset, text) == s
}

// fits reports whether a file has the content of the mark, and bytes up to the offset.
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
	// Text is whole lines, or a part of a long line, cleaned. It is valid until the next call. It
	// is empty if all bytes read were skipped.
	Text []byte
	// Skip is how much of the clean text from From on was returned before a restart, and is left
	// out.
	Skip int64
	// File numbers the files of a Follower, from 1.
	File int
	// From and To are the positions in the file where Text begins and ends. They are equal if Text
	// is a newline that was added after the last line of the file.
	From, To int64
	// Mark identifies the file.
	Mark Mark
	// Cursor identifies the journal's entry with which Text begins, before Skip. A journal has no
	// other positions.
	Cursor string
}

// Place is where a Follower begins to read.
type Place struct {
	Mark   Mark
	Offset int64
	Skip   int64  // bytes of clean text after the offset that were returned before
	Ended  bool   // a newline was added after the line before it, which the file lacks
	Cursor string // cursor of a journal's entry, in place of the offset
}
