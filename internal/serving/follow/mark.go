package follow

import (
	"crypto/sha256"
	"encoding/hex"
	"io"
)

// sampleBytes is how much of a file a sample is made of, at most.
const sampleBytes = 256

// Mark tells a file from others, also when it has another name by now: by what it begins with, and
// by what stands in front of a place of it. It holds no text of the file, but hashes.
type Mark struct {
	ID   string `json:"id,omitempty"` // device and inode, where the system has them
	Head Sample `json:"head"`         // how the file begins
	Tail Sample `json:"tail"`         // what stood in front of the place up to which it was read
}

// Sample is a hash of bytes of a file.
type Sample struct {
	Offset int64  `json:"offset"`         // of the first byte
	Bytes  int    `json:"bytes"`          // at most sampleBytes
	Hash   string `json:"hash,omitempty"` // SHA-256, in hexadecimal; of no bytes, nothing
}

// sampleOf makes a sample of text that stands at an offset.
func sampleOf(offset int64, text []byte) Sample {
	if len(text) == 0 {
		return Sample{Offset: offset}
	}
	sum := sha256.Sum256(text)
	return Sample{Offset: offset, Bytes: len(text), Hash: hex.EncodeToString(sum[:])}
}

// Valid reports whether a sample can have been made of a file.
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
	n, _ := f.ReadAt(text, s.Offset) // what cannot be read does not fit
	return n == s.Bytes && sampleOf(s.Offset, text) == s
}

// fits reports whether a file is the one of the mark, as far as its content shows, and has bytes up
// to the offset.
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
	// Text is whole lines, or a part of a line that is long, clean. It is valid until the next
	// call. It is empty where all that was read was skipped.
	Text []byte
	// Skip is how much of the clean text from From on was given before a restart, and is left out.
	Skip int64
	// File numbers the files of a Follower, from 1.
	File int
	// From and To are the places in the file where Text begins, and behind Text. They are the same
	// where Text is a newline that the file has not: the end of its last line.
	From, To int64
	// Mark tells the file from others.
	Mark Mark
	// Cursor is that of the journal's entry with which Text begins, but for Skip; a journal has no
	// other places.
	Cursor string
}

// Place is where a Follower begins to read.
type Place struct {
	Mark   Mark
	Offset int64
	Skip   int64  // how much of the clean text behind the offset was given before
	Ended  bool   // the line in front of it was given a newline that the file has not
	Cursor string // of a journal's entry, which stands for the offset
}
