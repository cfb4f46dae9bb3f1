package storetest

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/lmserve/lmserve/internal/serving/storage"
)

// modelSession is a session in the reference model, with which the tests compare a store.
type modelSession struct {
	epoch     uint64
	head      string
	start     int64
	records   []logged
	snapshots map[int64]string
	// origins has the ids of the sessions whose records or snapshots this fork may share.
	origins map[string]bool
}

func (m *modelSession) end() int64 {
	if n := len(m.records); n > 0 {
		return m.records[n-1].at + int64(len(m.records[n-1].r.Text))
	}
	return m.start
}

func (m *modelSession) offsets() []int64 { return slices.Sorted(maps.Keys(m.snapshots)) }

// machine makes the same calls to a store and to the reference model.
type machine struct {
	b        Backend
	s        storage.Store
	sessions map[string]*modelSession
}

// model makes random calls to a store and to the reference model, and checks that both agree. All
// sequences of calls use the same store, and each sequence begins by deleting all sessions.
func model(t *testing.T, b Backend) {
	s := open(t, b)
	rapid.Check(t, func(t *rapid.T) {
		m := &machine{b: b, s: s, sessions: map[string]*modelSession{}}
		defer func() { s = m.s }()
		old, err := s.List(background, "", 1000)
		require.NoError(t, err)
		for _, o := range old {
			require.NoError(t, s.Delete(background, o.ID, 0))
		}
		actions := map[string]func(*rapid.T){
			"":         m.agree,
			"create":   m.create,
			"claim":    m.claim,
			"head":     m.head,
			"append":   m.append,
			"snapshot": m.snapshot,
			"drop":     m.drop,
			"trim":     m.trim,
			"delete":   m.delete,
			"fork":     m.fork,
		}
		if b.durable() {
			actions["restart"] = func(t *rapid.T) { m.again(t, closeStore) }
			actions["crash"] = func(t *rapid.T) { m.again(t, b.Crash) }
		}
		t.Repeat(actions)
	})
	require.NoError(t, s.Close())
}

var ids = []string{"a", "a-", "a0", "b"}

// one draws the id of an existing or a missing session, and the session's epoch. In one of ten
// cases the epoch is wrong.
func (m *machine) one(t *rapid.T) (id string, s *modelSession, epoch uint64) {
	id = rapid.SampledFrom(ids).Draw(t, "id")
	s = m.sessions[id]
	if s != nil {
		epoch = s.epoch
	}
	if rapid.IntRange(0, 9).Draw(t, "stranger") == 0 {
		epoch += 1 + uint64(rapid.IntRange(0, 3).Draw(t, "epoch"))
	}
	return id, s, epoch
}

// refused returns the error that a write must return if the session does not exist or the epoch is
// wrong. Otherwise it returns nil.
func refused(s *modelSession, epoch uint64) error {
	switch {
	case s == nil:
		return storage.ErrNotFound
	case s.epoch != epoch:
		return storage.ErrFenced
	}
	return nil
}

func expect(t *rapid.T, want, got error) bool {
	if want == nil {
		require.NoError(t, got)
		return true
	}
	require.ErrorIs(t, got, want)
	return false
}

func (m *machine) create(t *rapid.T) {
	id := rapid.SampledFrom(ids).Draw(t, "id")
	head := rapid.StringN(0, 20, 5000).Draw(t, "head")
	start := rapid.SampledFrom([]int64{0, 0, 5, 1 << 33}).Draw(t, "start")
	epoch, err := m.s.Create(background, id, []byte(head), start)
	if m.sessions[id] != nil || errors.Is(err, storage.ErrExists) && m.isOrigin(id) {
		expect(t, storage.ErrExists, err)
		return
	}
	require.NoError(t, err)
	m.sessions[id] = &modelSession{epoch: epoch, head: head, start: start,
		snapshots: map[int64]string{}}
}

// isOrigin reports whether a fork may share data that is stored under an id.
func (m *machine) isOrigin(id string) bool {
	for _, s := range m.sessions {
		if s.origins[id] {
			return true
		}
	}
	return false
}

func (m *machine) fork(t *rapid.T) {
	from, s, _ := m.one(t)
	id := rapid.SampledFrom(ids).Draw(t, "fork")
	fork := &modelSession{head: "fork of " + from, snapshots: map[int64]string{},
		origins: map[string]bool{from: true}}
	var c storage.Cut
	if s != nil {
		first := rapid.IntRange(0, len(s.records)).Draw(t, "first")
		last := rapid.IntRange(first, len(s.records)).Draw(t, "last")
		fork.records = slices.Clone(s.records[first:last])
		border := func(n int) int64 {
			if n < len(s.records) {
				return s.records[n].at
			}
			return s.end()
		}
		c.Start, c.End, fork.start = border(first), border(last), border(first)
		for at, content := range s.snapshots {
			if at >= c.Start && at <= c.End {
				fork.snapshots[at] = content
			}
		}
		maps.Copy(fork.origins, s.origins)
	}
	epoch, err := m.s.Fork(background, from, id, []byte(fork.head), c)
	switch {
	case m.sessions[id] != nil && s == nil: // ErrExists and ErrNotFound are both correct
		require.Error(t, err)
	case m.sessions[id] != nil || s != nil && errors.Is(err, storage.ErrExists) && m.isOrigin(id):
		expect(t, storage.ErrExists, err)
	case s == nil && errors.Is(err, storage.ErrExists):
		require.True(t, m.isOrigin(id))
	case s == nil:
		expect(t, storage.ErrNotFound, err)
	default:
		require.NoError(t, err)
		fork.epoch = epoch
		m.sessions[id] = fork
	}
}

func (m *machine) claim(t *rapid.T) {
	id, s, _ := m.one(t)
	got, err := m.s.Claim(background, id)
	if s == nil {
		expect(t, storage.ErrNotFound, err)
		return
	}
	require.NoError(t, err)
	require.Greater(t, got.Epoch, s.epoch)
	s.epoch = got.Epoch
	require.Equal(t, s.describe(id), got)
}

func (m *modelSession) describe(id string) storage.Session {
	d := storage.Session{ID: id, Epoch: m.epoch, Head: []byte(m.head), Start: m.start, End: m.end()}
	if n := len(m.records); n > 0 {
		d.Last, d.LastAt = last(m.records[n-1].r), m.records[n-1].at
	}
	return d
}

func (m *machine) head(t *rapid.T) {
	id, s, epoch := m.one(t)
	head := rapid.StringN(0, 20, 5000).Draw(t, "head")
	if expect(t, refused(s, epoch), m.s.SetHead(background, id, epoch, []byte(head))) {
		s.head = head
	}
}

func (m *machine) append(t *rapid.T) {
	id, s, epoch := m.one(t)
	at := rapid.Int64Range(0, 100).Draw(t, "at")
	if s != nil && rapid.IntRange(0, 4).Draw(t, "right") > 0 {
		at = s.end()
	}
	var records []storage.Record
	var added []logged
	next := at
	for range rapid.IntRange(1, 4).Draw(t, "records") {
		size := rapid.SampledFrom([]int{1, 10, 128, 3000, 20_000}).Draw(t, "size")
		r := storage.Record{
			UnixMS: rapid.Int64().Draw(t, "time"), Bits: rapid.Float64().Draw(t, "bits"),
			HasBaseline: rapid.Bool().Draw(t, "baseline"),
			Text:        slices.Repeat([]byte{rapid.Byte().Draw(t, "text")}, size),
		}
		if r.HasBaseline {
			r.Baseline = r.Bits / 2
		}
		if r.ByLine = rapid.Bool().Draw(t, "by line"); r.ByLine && size > 3 {
			copy(r.Text, "\n\n\n")
			r.Skipped = []uint16{0, 2}
		}
		if rapid.Bool().Draw(t, "words") {
			r.Words = &storage.Words{
				Bytes: int64(size), Chars: 2, Tokens: 3, Unknown: 4, UnknownBytes: 5,
				UnknownChars: 6, UnknownBits: r.Bits / 3, UnknownBaseline: r.Bits / 4,
			}
		}
		if rapid.Bool().Draw(t, "continued") {
			r.Continued = rapid.Int64().Draw(t, "bytes that continue characters")
		}
		records = append(records, r)
		added = append(added, logged{next, r})
		next += int64(size)
	}
	want := refused(s, epoch)
	if want == nil && at != s.end() {
		want = storage.ErrSequence
	}
	if expect(t, want, m.s.Append(background, id, epoch, at, records...)) {
		s.records = append(s.records, added...)
	}
}

func (m *machine) snapshot(t *rapid.T) {
	id, s, epoch := m.one(t)
	at := rapid.Int64Range(0, 20_000).Draw(t, "at")
	if s != nil && rapid.Bool().Draw(t, "end") {
		at = s.end()
	}
	content := fmt.Sprintf("%s at %d: %s", id, at, rapid.String().Draw(t, "content"))
	want := refused(s, epoch)
	if want == nil {
		_, there := s.snapshots[at]
		switch {
		case there:
			want = storage.ErrExists
		case at < s.start, at > s.end():
			want = storage.ErrRange
		}
	}
	err := m.s.WriteSnapshot(background, id, epoch, at, writer(content))
	// The store may refuse an offset at which a fork shares a dropped snapshot.
	if want == nil && errors.Is(err, storage.ErrExists) && m.isOrigin(id) {
		return
	}
	if !expect(t, want, err) {
		return
	}
	s.snapshots[at] = content
}

func (m *machine) drop(t *rapid.T) {
	id, s, epoch := m.one(t)
	at := rapid.Int64Range(0, 100).Draw(t, "at")
	if s != nil && len(s.snapshots) > 0 {
		at = rapid.SampledFrom(s.offsets()).Draw(t, "which")
	}
	want := refused(s, epoch)
	if want == nil {
		if _, there := s.snapshots[at]; !there {
			want = storage.ErrNotFound
		}
	}
	if expect(t, want, m.s.DropSnapshot(background, id, epoch, at)) {
		delete(s.snapshots, at)
	}
}

func (m *machine) trim(t *rapid.T) {
	id, s, epoch := m.one(t)
	before := rapid.Int64Range(0, 20_000).Draw(t, "before")
	if s != nil && len(s.snapshots) > 0 {
		before = rapid.SampledFrom(s.offsets()).Draw(t, "snapshot") - rapid.Int64Range(-1,
			1).Draw(t, "beside")
	}
	want := refused(s, epoch)
	if want == nil {
		newest := s.start
		if kept := s.offsets(); len(kept) > 0 {
			newest = kept[len(kept)-1]
		}
		if before < 0 || before > newest {
			want = storage.ErrRange
		}
	}
	if !expect(t, want, m.s.Trim(background, id, epoch, before)) {
		return
	}
	for len(s.records) > 0 && s.records[0].at+int64(len(s.records[0].r.Text)) <= before {
		s.start = s.records[0].at + int64(len(s.records[0].r.Text))
		s.records = s.records[1:]
	}
}

func (m *machine) delete(t *rapid.T) {
	id, s, epoch := m.one(t)
	if s != nil && rapid.IntRange(0, 3).Draw(t, "anyone") == 0 {
		require.NoError(t, m.s.Delete(background, id, 0))
		delete(m.sessions, id)
		return
	}
	if expect(t, refused(s, epoch), m.s.Delete(background, id, epoch)) {
		delete(m.sessions, id)
	}
}

func (m *machine) again(t *rapid.T, stop func(storage.Store) error) {
	require.NoError(t, stop(m.s))
	m.s = open(t, m.b)
}

func (m *machine) agree(t *rapid.T) { agree(t, m.s, m.sessions) }

func agree(t require.TestingT, s storage.Store, want map[string]*modelSession) {
	listed, err := s.List(background, "", 1000)
	require.NoError(t, err)
	require.Equal(t, len(want), len(listed))
	for _, got := range listed {
		m := want[got.ID]
		require.NotNil(t, m, got.ID)
		require.Equal(t, m.describe(got.ID), got)
		records, err := read(s, got.ID, m.start)
		require.NoError(t, err)
		require.Equal(t, len(m.records), len(records))
		for i := range records {
			require.Equal(t, m.records[i], records[i])
		}
		require.Equal(t, m.offsets(), offsets(t, s, got.ID))
		for at, content := range m.snapshots {
			require.Equal(t, content, snapshot(t, s, got.ID, at))
		}
	}
}

// restarts runs a script of calls. After each step it stops the store, opens it again, and compares
// it with the model.
func restarts(t *testing.T, b Backend, stop func(storage.Store) error) {
	m := &machine{b: b, sessions: map[string]*modelSession{}}
	a := &modelSession{head: "head of a", snapshots: map[int64]string{}}
	add := func(texts ...string) func() error {
		return func() error {
			at := a.end()
			var records []storage.Record
			for _, x := range texts {
				records = append(records, record(x))
				a.records = append(a.records, logged{a.end(), record(x)})
			}
			return m.s.Append(background, "a", a.epoch, at, records...)
		}
	}
	keep := func(at int64) func() error {
		return func() error {
			a.snapshots[at] = fmt.Sprint("state at ", at)
			return m.s.WriteSnapshot(background, "a", a.epoch, at, writer(a.snapshots[at]))
		}
	}
	for _, step := range []func() error{
		func() error { return nil },
		func() (err error) {
			m.sessions["a"] = a
			a.epoch, err = m.s.Create(background, "a", []byte(a.head), 0)
			return err
		},
		add("one"),
		add("two", "three"),
		keep(3),
		func() error {
			got, err := m.s.Claim(background, "a")
			a.epoch = got.Epoch
			return err
		},
		add("four"),
		keep(11),
		keep(15),
		func() error {
			a.records, a.start = a.records[3:], 11
			return m.s.Trim(background, "a", a.epoch, 12)
		},
		func() error {
			a.head = "another"
			return m.s.SetHead(background, "a", a.epoch, []byte(a.head))
		},
		func() error {
			m.sessions["b"] = &modelSession{head: "", start: 7, snapshots: map[int64]string{}}
			epoch, err := m.s.Create(background, "b", nil, 7)
			m.sessions["b"].epoch = epoch
			return err
		},
		func() error {
			delete(a.snapshots, 15)
			return m.s.DropSnapshot(background, "a", a.epoch, 15)
		},
		func() error {
			delete(m.sessions, "a")
			return m.s.Delete(background, "a", a.epoch)
		},
	} {
		m.s = open(t, b)
		require.NoError(t, errors.Join(step(), stop(m.s)))
		m.s = open(t, b)
		agree(t, m.s, m.sessions)
		require.NoError(t, stop(m.s))
	}
}
