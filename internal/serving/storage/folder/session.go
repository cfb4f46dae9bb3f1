package folder

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/lmserve/lmserve/internal/serving/storage"
)

// session has the data that the store keeps in memory about a session. The channel lock guards the
// other fields.
type session struct {
	id   string
	lock chan struct{} // a channel of capacity 1, full while the lock is held

	gone   bool
	damage error // nil if no damage is known

	epoch      uint64
	claimed    int64 // the end of the log at the last claim, as an offset
	head       []byte
	start, end int64
	last       *storage.Record // the last record, without its text
	lastAt     int64
	segments   []segment // in order of offset; new frames go into the last segment
	states     []*state
	leftovers  []string // names of files that the method mend removes
	// suspect says that a failed write may have left bytes after the end of the log, in the file of
	// the last segment. The method mend removes these bytes.
	suspect bool
	// unsynced says that files or their names may not be on the disk yet, because a process was
	// killed or a sync failed. The method settle syncs them before a caller sees them, because a
	// power cut could still remove them.
	unsynced bool
}

// segment is a file with a part of the log. Its last records may also be in the next segment, to
// which a split copied them. They are then read only from the next segment.
type segment struct {
	offset, bytes int64
	shared        links // the file's hard links; more than 1 if other sessions share the file
}

type state struct {
	storage.Snapshot
	shared links
}

const (
	headName      = "head"
	claimPrefix   = "claim."
	segmentPrefix = "log."
	statePrefix   = "state."
	temporary     = ".tmp"
)

func hexName(prefix string, n uint64) string { return fmt.Sprintf("%s%016x", prefix, n) }

func temporaryName(path string) string {
	return fmt.Sprintf("%s.%016x%s", path, rand.Uint64(), temporary)
}

// parseName returns the number n for which hexName(prefix, n) is name. ok is false if there is no
// such number.
func parseName(name, prefix string) (n uint64, ok bool) {
	digits, found := strings.CutPrefix(name, prefix)
	n, err := strconv.ParseUint(digits, 16, 64)
	return n, found && err == nil && hexName(prefix, n) == name
}

func claimName(epoch uint64, end int64) string {
	return hexName(hexName(claimPrefix, epoch)+".", uint64(end))
}

func parseClaim(name string) (epoch uint64, end int64, ok bool) {
	n := len(hexName(claimPrefix, 0))
	if len(name) < n {
		return 0, 0, false
	}
	epoch, isClaim := parseName(name[:n], claimPrefix)
	at, hasEnd := parseName(name[n:], ".")
	return epoch, int64(at), isClaim && hasEnd && int64(at) >= 0
}

func (f *Folder) sessionPath(id string) string { return filepath.Join(f.dir, sessionsName, id) }

func (f *Folder) file(s *session, prefix string, offset int64) string {
	return filepath.Join(f.sessionPath(s.id), hexName(prefix, uint64(offset)))
}

// headLine begins the first line of a head's file. The first line ends with the checksum of the
// rest of the file.
const headLine = "lmserve session 1 "

// headData is the JSON in the second line of a head's file.
type headData struct {
	ID    string `json:"id"`
	Start int64  `json:"start"`
	Lost  string `json:"lost,omitempty"`
}

func encodeHead(d headData, head []byte) []byte {
	second, err := json.Marshal(d)
	if err != nil {
		panic(err) // impossible: d has only strings and numbers
	}
	rest := append(append(second, '\n'), head...)
	return fmt.Appendf(nil, "%s%08x\n%s", headLine, crc32.Checksum(rest, castagnoli), rest)
}

func decodeHead(b []byte) (d headData, head []byte, err error) {
	first, rest, found := bytes.Cut(b, []byte("\n"))
	want, isHead := bytes.CutPrefix(first, []byte(headLine))
	if !found || !isHead {
		return d, nil, fmt.Errorf("found %.40q, expected a line that begins with "+
			"%q", first, headLine)
	}
	if have := fmt.Sprintf("%08x", crc32.Checksum(rest, castagnoli)); have != string(want) {
		return d, nil, fmt.Errorf("the checksum is %s, expected %.20q", have, want)
	}
	second, head, _ := bytes.Cut(rest, []byte("\n"))
	if err := json.Unmarshal(second, &d); err != nil {
		return d, nil, fmt.Errorf("second line: %w", err)
	}
	return d, head, nil
}

// corrupt returns a storage.CorruptError for a session's file. Parameter `at` is the position of
// the damaged byte, or -1 if the damage is not at a single byte.
func corrupt(s *session, name string, at int64, what error) error {
	path := filepath.ToSlash(filepath.Join(sessionsName, s.id, name))
	return &storage.CorruptError{File: path, Byte: at, Session: s.id, Offset: -1,
		What: what.Error()}
}

// unread returns the error of a read of a session's file that failed with err. The result is
// storage.ErrUnavailable if no file descriptor is free or the data folder is not in place, and
// otherwise damage.
func (f *Folder) unread(s *session, name string, err error) error {
	if errors.Is(err, storage.ErrUnavailable) {
		return err
	}
	if errors.Is(err, fs.ErrNotExist) {
		if away := f.inPlace(); away != nil {
			return away
		}
	}
	return corrupt(s, name, -1, err)
}

// load reads the names of a session's files, the session's head, and the last frame of its log. It
// stores damage in the session's field damage. The error is storage.ErrUnavailable if a later load
// may succeed.
func (f *Folder) load(id string) (*session, error) {
	s := newSession(id)
	dir := f.sessionPath(id)
	entries, err := f.files.ReadDir(dir)
	for _, e := range entries {
		info, failed := e.Info()
		switch {
		case failed == nil:
			s.takeName(filepath.Join(dir, e.Name()), info)
		case !errors.Is(failed, fs.ErrNotExist):
			err = failed
		}
	}
	slices.SortFunc(s.segments, func(a, b segment) int {
		return int(min(max(a.offset-b.offset, -1),
			1))
	})
	slices.SortFunc(s.states,
		func(a, b *state) int { return int(min(max(a.Offset-b.Offset, -1), 1)) })
	if err != nil {
		s.damage = f.unread(s, "", err)
	} else {
		s.damage = firstError(func() error { return f.loadHead(s) },
			func() error { return f.loadEnd(s) })
	}
	if errors.Is(s.damage, storage.ErrUnavailable) {
		return nil, s.damage
	}
	return s, nil
}

func newSession(id string) *session { return &session{id: id, lock: make(chan struct{}, 1)} }

func (s *session) takeName(path string, info fs.FileInfo) {
	name := info.Name()
	if n, ok := parseName(name, segmentPrefix); ok && int64(n) >= 0 {
		s.segments = append(s.segments, segment{int64(n), info.Size(), linksOf(path, info)})
		return
	}
	if n, ok := parseName(name, statePrefix); ok && int64(n) >= 0 {
		kept := storage.Snapshot{Offset: int64(n), Bytes: info.Size()}
		s.states = append(s.states, &state{kept, linksOf(path, info)})
		return
	}
	if epoch, end, ok := parseClaim(name); ok {
		if epoch > s.epoch {
			s.epoch, s.claimed = epoch, end
		}
		return
	}
	if strings.HasSuffix(name, temporary) {
		s.leftovers = append(s.leftovers, name)
	}
}

func (f *Folder) loadHead(s *session) error {
	b, err := f.read(filepath.Join(f.sessionPath(s.id), headName), -1)
	if err != nil {
		return f.unread(s, headName, err)
	}
	d, head, err := decodeHead(b)
	switch {
	case err != nil:
		return corrupt(s, headName, -1, err)
	case d.ID != s.id:
		return corrupt(s, headName, -1, fmt.Errorf("found the head of session %.80q, expected "+
			"the head of this session: the folder was copied or renamed", d.ID))
	case d.Start < 0:
		return corrupt(s, headName, -1, fmt.Errorf("the field \"start\" is %d, expected 0 or "+
			"more", d.Start))
	}
	s.head, s.start, s.end = head, d.Start, d.Start
	// an interrupted Trim did not remove these segments
	for len(s.segments) > 0 && s.segments[0].offset < s.start {
		s.leftovers = append(s.leftovers, hexName(segmentPrefix, uint64(s.segments[0].offset)))
		s.segments = s.segments[1:]
	}
	if n := len(s.segments); n > 0 && s.segments[0].offset > s.start {
		return corrupt(s, hexName(segmentPrefix, uint64(s.start)), -1, errors.New("missing"))
	}
	if d.Lost != "" {
		return corrupt(s, headName, -1, errors.New(d.Lost))
	}
	return nil
}

// loadEnd finds the end of the log, and its last record. If a power cut interrupted an append,
// loadEnd ignores the incomplete frame, which the next claim removes.
func (f *Folder) loadEnd(s *session) (damage error) {
	last := len(s.segments) - 1
	for n := last; n >= 0; n-- {
		at, err := f.endOf(s, n)
		if n == last {
			s.end = max(at, s.segments[n].offset, s.start)
		}
		if damage == nil {
			damage = err
		}
		if s.last != nil {
			break
		}
	}
	want := s.claimed
	if n := len(s.states); n > 0 {
		want = max(want, s.states[n-1].Offset)
	}
	if damage == nil && s.end < want {
		damage = corrupt(s, hexName(segmentPrefix, uint64(s.end)), -1,
			fmt.Errorf("the log ends at offset "+
				"%d, expected %d or more", s.end, want))
	}
	return damage
}

// endOf returns the offset at which the frames of segment n end, and stores the last record in s.
func (f *Folder) endOf(s *session, n int) (end int64, err error) {
	seg := &s.segments[n]
	if end, found, err := f.lastFrame(s, seg); found || err != nil {
		return end, err
	}
	// The file does not end with a valid frame, so endOf reads the whole file.
	b, err := f.read(f.file(s, segmentPrefix, seg.offset), seg.bytes)
	if err != nil {
		return 0, f.unread(s, hexName(segmentPrefix, uint64(seg.offset)), err)
	}
	end = seg.offset
	for at := int64(0); at < int64(len(b)); {
		fr, err := readFrame(b[at:])
		if err != nil {
			if n < len(s.segments)-1 || !torn(b[at:], at, end) {
				return end, corrupt(s, hexName(segmentPrefix, uint64(seg.offset)), at, err)
			}
			s.suspect, seg.bytes = true, at
			break
		}
		if err := s.noteLast(fr, &end); err != nil {
			return end, corrupt(s, hexName(segmentPrefix, uint64(seg.offset)), at, err)
		}
		at += fr.size
	}
	return end, nil
}

// noteLast stores a frame's last record in s. The frame must begin at the offset *end, where the
// previous frame ends. noteLast sets *end to the offset at which this frame ends.
func (s *session) noteLast(fr frame, end *int64) error {
	if fr.at != *end {
		return fmt.Errorf("found a frame with offset %d, expected offset %d", fr.at, *end)
	}
	return fr.each(func(at int64, r storage.Record) error {
		*end = at + int64(len(r.Text))
		r.Text = nil
		s.last, s.lastAt = &r, at
		return nil
	})
}

// lastFrame reads the last frame of a segment. found is false if the file does not end with a
// frame.
func (f *Folder) lastFrame(s *session, seg *segment) (end int64, found bool, err error) {
	if seg.bytes < frameHead+frameTail {
		return seg.offset, seg.bytes == 0, nil
	}
	in, _, err := f.open(f.file(s, segmentPrefix, seg.offset))
	if err != nil {
		return 0, false, f.unread(s, hexName(segmentPrefix, uint64(seg.offset)), err)
	}
	defer in.Close()
	tail := make([]byte, frameTail)
	if _, err := in.ReadAt(tail, seg.bytes-frameTail); err != nil {
		return 0, false, corrupt(s, hexName(segmentPrefix, uint64(seg.offset)), -1, err)
	}
	all := frameHead + int64(binary.LittleEndian.Uint32(tail)) + frameTail
	if all > seg.bytes {
		return 0, false, nil
	}
	b := make([]byte, all)
	if _, err := in.ReadAt(b, seg.bytes-all); err != nil {
		return 0, false, corrupt(s, hexName(segmentPrefix, uint64(seg.offset)), -1, err)
	}
	fr, err := readFrame(b)
	if err != nil {
		return 0, false, nil
	}
	end = fr.at
	err = s.noteLast(fr, &end)
	if err != nil {
		return end, false, corrupt(s, hexName(segmentPrefix, uint64(seg.offset)), seg.bytes-all,
			err)
	}
	return end, true, nil
}

// stateAt returns the index of the snapshot at an offset, or -1 if there is none.
func (s *session) stateAt(at int64) int {
	return slices.IndexFunc(s.states, func(kept *state) bool { return kept.Offset == at })
}

func (s *session) describe() storage.Session {
	d := storage.Session{
		ID: s.id, Epoch: s.epoch, Head: bytes.Clone(s.head), Start: s.start, End: s.end,
		LastAt: s.lastAt, Err: s.damage,
	}
	if s.head != nil && d.Head == nil {
		d.Head = []byte{}
	}
	if s.last != nil {
		last := *s.last
		d.Last = &last
	}
	return d
}

func (s *session) acquire(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	select {
	case s.lock <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (s *session) release() { <-s.lock }
