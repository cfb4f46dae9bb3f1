package folder

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/lmserve/lmserve/internal/serving/storage"
)

// The index spares Open from reading the files of every session. It has one line of JSON for each
// session, and a last line with the checksum of the lines before. Close writes the index. Open
// removes it unless the folder is open read-only. If the modification time of a session's folder
// differs from the index, Open reads the session's files. If the index is invalid, Open reads the
// files of all sessions.

const indexName = "index"

type indexed struct {
	ID      string
	Changed int64 // the modification time of the session's folder, in Unix nanoseconds
	Epoch   uint64
	Claimed int64
	Head    []byte
	Start   int64
	End     int64
	LastAt  int64
	// the last record as encoded in a frame, with newlines as its text
	Last     []byte        `json:",omitempty"`
	Segments []indexedFile `json:",omitempty"`
	States   []indexedFile `json:",omitempty"`
}

type indexedFile struct {
	Offset, Bytes int64
	Shared        bool `json:",omitempty"`
}

// writeIndex writes the index. It omits sessions that are damaged, unsynced or have leftovers, so
// that Open reads their files.
func (f *Folder) writeIndex() error {
	var b bytes.Buffer
	out := json.NewEncoder(&b)
	for _, id := range f.completeIDs() {
		s := f.sessions[id]
		if s.damage != nil || s.unsynced || s.suspect || len(s.leftovers) > 0 {
			continue
		}
		info, err := os.Stat(f.sessionPath(id))
		if err != nil {
			continue
		}
		if err := out.Encode(s.indexed(info)); err != nil {
			return err
		}
	}
	fmt.Fprintf(&b, "%08x\n", crc32.Checksum(b.Bytes(), castagnoli))
	_, err := f.write(f.path(indexName), b.Bytes())
	return err
}

func (s *session) indexed(info fs.FileInfo) indexed {
	x := indexed{
		ID: s.id, Changed: info.ModTime().UnixNano(), Epoch: s.epoch, Claimed: s.claimed,
		Head: s.head, Start: s.start,
		End: s.end, LastAt: s.lastAt,
	}
	if s.last != nil {
		last := *s.last
		last.Text = []byte{'\n'} // decoding requires a line for each index in Skipped
		if n := len(last.Skipped); n > 0 {
			last.Text = bytes.Repeat(last.Text, 1+int(last.Skipped[n-1]))
		}
		x.Last = appendRecord(nil, &last)[lengthBytes:]
	}
	for _, seg := range s.segments {
		x.Segments = append(x.Segments, indexedFile{seg.offset, seg.bytes, seg.shared.links > 1})
	}
	for _, kept := range s.states {
		x.States = append(x.States, indexedFile{kept.Offset, kept.Bytes, kept.shared.links > 1})
	}
	return x
}

// readIndex reads the index by session id. It returns nil if the file is missing or invalid.
func (f *Folder) readIndex() map[string]indexed {
	b, err := f.read(f.path(indexName), -1)
	if err != nil {
		return nil
	}
	lines := bytes.TrimSuffix(b, []byte("\n"))
	n := bytes.LastIndexByte(lines, '\n') + 1
	if string(lines[n:]) != fmt.Sprintf("%08x", crc32.Checksum(b[:n], castagnoli)) {
		return nil
	}
	found := map[string]indexed{}
	in := json.NewDecoder(bufio.NewReader(bytes.NewReader(b[:n])))
	for in.More() {
		var x indexed
		if in.Decode(&x) != nil {
			return nil
		}
		found[x.ID] = x
	}
	return found
}

// removeIndex removes the index, because the next change of a session makes it wrong. The caller
// must sync the folder to make the removal durable.
func (f *Folder) removeIndex() error {
	if _, err := os.Lstat(f.path(indexName)); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return f.shred(f.path(indexName))
}

// fromIndex makes a session from its entry in the index. It returns nil if the entry is invalid, or
// if the session's folder has changed since the entry was written.
func (f *Folder) fromIndex(x indexed) *session {
	dir := f.sessionPath(x.ID)
	info, err := os.Stat(dir)
	if err != nil || info.ModTime().UnixNano() != x.Changed {
		return nil
	}
	s := newSession(x.ID)
	s.epoch, s.claimed, s.start, s.end = x.Epoch, x.Claimed, x.Start, x.End
	s.head = append([]byte{}, x.Head...)
	s.lastAt = x.LastAt
	if x.Last != nil {
		last, err := decodeRecord(x.Last)
		if err != nil {
			return nil
		}
		last.Text = nil
		s.last = &last
	}
	ok := true
	shared := func(prefix string, file indexedFile) links {
		if !file.Shared {
			return links{links: 1}
		}
		path := filepath.Join(dir, hexName(prefix, uint64(file.Offset)))
		info, err := os.Lstat(path)
		if ok = ok && err == nil; !ok {
			return links{}
		}
		return linksOf(path, info)
	}
	for _, file := range x.Segments {
		s.segments = append(s.segments, segment{file.Offset, file.Bytes,
			shared(segmentPrefix, file)})
	}
	for _, file := range x.States {
		kept := storage.Snapshot{Offset: file.Offset, Bytes: file.Bytes}
		s.states = append(s.states, &state{kept, shared(statePrefix, file)})
	}
	if !ok {
		return nil
	}
	return s
}
