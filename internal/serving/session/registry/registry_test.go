package registry

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

var start = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

func ids(page []*Entry[int]) (all []string) {
	for _, e := range page {
		all = append(all, e.ID)
	}
	return all
}

func pages(page func(after string) ([]*Entry[int], bool)) (all []string) {
	for after := ""; ; {
		found, more := page(after)
		all = append(all, ids(found)...)
		if !more {
			return all
		}
		after = all[len(all)-1]
	}
}

// model is a simple registry. The test compares the real registry with model.
type model struct {
	entries map[string]*Entry[int]
	pending map[string][]string
	// entries by key(owner, name); nil while a session is being made or renamed
	named   map[string]*Entry[int]
	renamed map[*Entry[int]]*renaming
}

type renaming struct {
	name   string
	settle func(bool)
}

func key(owner, name string) string { return owner + "/" + name }

// name registers an entry's name, unless another entry has the name.
func (m *model) name(e *Entry[int]) {
	if _, taken := m.named[key(e.Owner, e.name)]; e.name != "" && !taken {
		m.named[key(e.Owner, e.name)] = e
	}
}

func (m *model) forget(e *Entry[int]) {
	delete(m.entries, e.ID)
	if m.named[key(e.Owner, e.name)] == e {
		delete(m.named, key(e.Owner, e.name))
	}
	if r := m.renamed[e]; r != nil && r.name != "" {
		delete(m.named, key(e.Owner, r.name))
	}
}

func (m *model) owned(owner string) (n int) {
	for _, e := range m.entries {
		if e.Owner == owner {
			n++
		}
	}
	return n + len(m.pending[owner])
}

func (m *model) places() (n int) {
	for _, p := range m.pending {
		n += len(p)
	}
	return n + len(m.entries)
}

func (m *model) listed(owner string, now time.Time) (all []string) {
	for id, e := range m.entries {
		if (owner == "all" || e.Owner == owner) && !e.expired(now) {
			all = append(all, id)
		}
	}
	slices.Sort(all)
	return all
}

func TestAnySequenceOfCallsDoesWhatAMapDoes(t *testing.T) {
	const max, most = 12, 5
	rapid.Check(t, func(t *rapid.T) {
		r := New[int](max)
		m := &model{
			entries: map[string]*Entry[int]{}, pending: map[string][]string{},
			named: map[string]*Entry[int]{}, renamed: map[*Entry[int]]*renaming{},
		}
		now, serial := start, 0
		owners := rapid.SampledFrom([]string{"", "a", "b"})
		names := rapid.SampledFrom([]string{"", "n", "o"})
		ttls := rapid.SampledFrom([]time.Duration{0, time.Second, time.Minute})
		fresh := func(owner string) *Entry[int] {
			serial++
			id := fmt.Sprintf("%02d-%d", rapid.IntRange(0, 99).Draw(t, "id"), serial)
			return NewEntry(id, owner, "", ttls.Draw(t, "ttl"), now, serial)
		}
		pick := func() *Entry[int] {
			if len(m.entries) == 0 {
				t.Skip("there is none")
			}
			return m.entries[rapid.SampledFrom(slices.Sorted(maps.Keys(m.entries))).Draw(t,
				"entry")]
		}
		t.Repeat(map[string]func(*rapid.T){
			"reserve": func(t *rapid.T) {
				owner := owners.Draw(t, "owner")
				name := names.Draw(t, "name")
				err := r.Reserve(owner, name, most)
				_, taken := m.named[key(owner, name)]
				switch {
				case taken:
					require.ErrorIs(t, err, ErrName)
				case m.owned(owner) >= most:
					require.ErrorIs(t, err, ErrQuota)
				case m.places() >= max:
					require.ErrorIs(t, err, ErrFull)
				default:
					require.NoError(t, err)
					m.pending[owner] = append(m.pending[owner], name)
					if name != "" {
						m.named[key(owner, name)] = nil
					}
				}
			},
			"enter or cancel": func(t *rapid.T) {
				owner := owners.Draw(t, "owner")
				if len(m.pending[owner]) == 0 {
					t.Skip("nothing is reserved")
				}
				name := m.pending[owner][0]
				m.pending[owner] = m.pending[owner][1:]
				_, making := r.Named(owner, name, now)
				require.Equal(t, name != "", making != nil)
				delete(m.named, key(owner, name))
				if rapid.Bool().Draw(t, "cancel") {
					r.Cancel(owner, name)
				} else {
					e := fresh(owner)
					e.name = name
					r.Enter(e)
					m.entries[e.ID] = e
					m.name(e)
				}
				if making != nil {
					<-making
				}
			},
			"add": func(t *rapid.T) {
				e := fresh(owners.Draw(t, "owner"))
				e.name = names.Draw(t, "name")
				require.True(t, r.Add(e, now))
				m.name(e)
				require.False(t, r.Add(NewEntry(e.ID, "other", "", 0, now, 0), now),
					"the id is taken")
				m.entries[e.ID] = e
			},
			"remove": func(t *rapid.T) {
				e := pick()
				require.True(t, r.Remove(e))
				require.False(t, r.Remove(e))
				require.False(t, r.Use(e, now))
				m.forget(e)
			},
			"rename": func(t *rapid.T) {
				e, name := pick(), names.Draw(t, "name")
				if m.renamed[e] != nil {
					t.Skip("it is being renamed")
				}
				has, taken := m.named[key(e.Owner, name)]
				settle, err := r.Rename(e, name)
				if taken && has != e {
					require.ErrorIs(t, err, ErrName)
					return
				}
				require.NoError(t, err)
				if name != e.name || name != "" && !taken {
					m.renamed[e] = &renaming{name, settle}
					if name != "" {
						m.named[key(e.Owner, name)] = nil
					}
				} else {
					settle(rapid.Bool().Draw(t, "renamed"))
				}
			},
			"renamed or not": func(t *rapid.T) {
				byID := func(a, b *Entry[int]) int { return cmp.Compare(a.ID, b.ID) }
				for _, e := range slices.SortedFunc(maps.Keys(m.renamed), byID) {
					to := m.renamed[e]
					renamed, old := rapid.Bool().Draw(t, "renamed"), key(e.Owner, e.name)
					_, making := r.Named(e.Owner, to.name, now)
					to.settle(renamed)
					delete(m.renamed, e)
					if m.entries[e.ID] != e {
						continue
					}
					if making != nil {
						<-making
						delete(m.named, key(e.Owner, to.name))
					}
					if renamed {
						if m.named[old] == e {
							delete(m.named, old)
						}
						require.Equal(t, to.name, e.name)
						m.name(e)
					}
				}
			},
			"set ttl": func(t *rapid.T) { r.SetTTL(pick(), ttls.Draw(t, "ttl")) },
			"use": func(t *rapid.T) {
				e := pick()
				require.Equal(t, !e.expired(now), r.Use(e, now))
			},
			"done": func(t *rapid.T) {
				e := pick()
				if e.users == 0 {
					t.Skip("nobody uses it")
				}
				r.Touch(e, now)
				require.Equal(t, now, r.LastUsed(e))
				r.Done(e)
			},
			"time passes": func(t *rapid.T) {
				now = now.Add(time.Duration(rapid.IntRange(0, 40).Draw(t, "seconds")) * time.Second)
			},
			"expire": func(t *rapid.T) {
				limit := rapid.IntRange(1, 4).Draw(t, "limit")
				want := len(m.entries) - len(m.listed("all", now))
				gone := r.Expire(now, limit)
				require.Len(t, gone, min(limit, want))
				for n, e := range gone {
					require.True(t, e.expired(now))
					require.True(t, n == 0 ||
						!e.lastUsed.Add(e.ttl).Before(gone[n-1].lastUsed.Add(gone[n-1].ttl)),
						"the first to expire goes first")
					m.forget(e)
				}
			},
			"": func(t *rapid.T) {
				limit := rapid.IntRange(1, 4).Draw(t, "page")
				require.Equal(t, m.listed("all", now),
					pages(func(after string) ([]*Entry[int], bool) {
						return r.Page(after, limit,
							now)
					}))
				for _, owner := range []string{"", "a", "b", "nobody"} {
					require.Equal(t, m.owned(owner), placesOf(r, owner))
					require.Equal(t, m.listed(owner, now),
						pages(func(after string) ([]*Entry[int], bool) {
							return r.PageOf(owner,
								after, limit, now)
						}))
				}
				require.Equal(t, m.places(), r.Places())
				for id, e := range m.entries {
					if e.expired(now) {
						require.Nil(t, r.Find(id, now))
					} else {
						require.Same(t, e, r.Find(id, now))
					}
				}
				require.Nil(t, r.Find("unknown", now))
				for _, owner := range []string{"", "a", "b"} {
					for _, name := range []string{"n", "o"} {
						want, taken := m.named[key(owner, name)]
						found, making := r.Named(owner, name, now)
						require.Equal(t, taken && want == nil, making != nil)
						if want != nil && want.expired(now) {
							want = nil
						}
						require.Same(t, want, found)
					}
				}
			},
		})
	})
}

func TestSessionGoneBetweenPagesDoesNotEndList(t *testing.T) {
	r := New[int](10)
	var all []*Entry[int]
	for n := range 5 {
		e := NewEntry(fmt.Sprint(n), "a", "", 0, start, n)
		require.NoError(t, r.Reserve("a", "", 0))
		r.Enter(e)
		all = append(all, e)
	}
	page, more := r.Page("", 2, start)
	require.Equal(t, []string{"0", "1"}, ids(page))
	require.True(t, more)
	r.Remove(all[1])
	page, more = r.Page("1", 2, start)
	require.Equal(t, []string{"2", "3"}, ids(page))
	require.True(t, more)
	page, more = r.PageOf("a", "3", 1, start)
	require.Equal(t, []string{"4"}, ids(page))
	require.False(t, more)
}

func TestSessionInUseExpiresOnlyAfterwards(t *testing.T) {
	r := New[int](1)
	e := NewEntry("a", "", "", time.Minute, start, 1)
	r.Add(e, start)
	require.True(t, r.Use(e, start))
	late := start.Add(time.Hour)
	require.Empty(t, r.Expire(late, 10))
	require.Same(t, e, r.Find("a", late))
	r.Touch(e, late)
	r.Done(e)
	require.Empty(t, r.Expire(late.Add(time.Minute-1), 10))
	require.Equal(t, []*Entry[int]{e}, r.Expire(late.Add(time.Minute), 10))
	require.Zero(t, r.Places())
	r2 := NewEntry("b", "", "", time.Minute, start, 1)
	r.Add(r2, start)
	require.True(t, r.Use(r2, start))
	r.Remove(r2)
	r.Done(r2)
	require.Empty(t, r.Expire(late, 10), "what was removed under its user has no deadline")
}

// A wrong clock does not expire sessions, because their time without use counts from the start of
// the server.
func TestIdleTimeCountsFromTheStart(t *testing.T) {
	year := 365 * 24 * time.Hour
	for _, off := range []time.Duration{-50 * year, 0, 50 * year} {
		r := New[int](1)
		e := NewEntry("a", "", "", time.Minute, start.Add(off), 1)
		require.True(t, r.Add(e, start))
		require.Empty(t, r.Expire(start.Add(time.Minute-1), 1), off)
		require.Equal(t, start.Add(off), r.LastUsed(e))
		require.Equal(t, []*Entry[int]{e}, r.Expire(start.Add(time.Minute), 1), off)
	}
}

func placesOf[S any](r *Registry[S], owner string) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	if o := r.mu.owners[owner]; o != nil {
		return o.places
	}
	return 0
}

func TestEnterKeepsKnownSession(t *testing.T) {
	r := New[string](3)
	require.NoError(t, r.Reserve("owner", "", 0))
	known := NewEntry("id", "owner", "", 0, time.Time{}, "known")
	require.True(t, r.Add(known, time.Time{}))
	require.False(t, r.Enter(NewEntry("id", "owner", "", 0, time.Time{}, "made")))
	r.Cancel("owner", "")
	require.Equal(t, "known", r.Find("id", time.Time{}).Value)
	require.Equal(t, 1, r.Places())
	require.True(t, r.Remove(known))
	require.Zero(t, r.Places())
}
