package sessionlog

import (
	"fmt"
	"io"
)

// salvage looks through all of a database. Both meta pages are tried, then the pages of the newest
// tree that are not in order are read element by element, then every page that no tree has led to.
// progress is told of the bytes looked at, of all.
func salvage(
	r io.ReaderAt, size int64, report func(*CorruptError), progress func(done, all int64),
) *salvager {
	s := &salvager{
		r: r, size: size, found: map[string]*remains{}, leaves: map[string]int{},
		walked: map[string]bool{}, report: report,
		sound: make([]bool, size/pageBytes), scratch: make([]bool, size/pageBytes),
	}
	metas := s.metas()
	if len(metas) == 0 {
		s.lost = append(s.lost, lostPage{err: fmt.Errorf("neither meta page can be used")})
	}
	s.oneMeta = len(metas) == 1
	for n, m := range metas {
		s.root(m, newestTree+source(n)*olderTree)
	}
	whole := map[uint64]bool{}         // by page: each is read once
	for n := 0; n < len(s.lost); n++ { // more may come
		id := s.lost[n].id
		if _, seen := whole[id]; !seen {
			whole[id] = id >= 2 && s.elements(s.lost[n])
		}
		s.whole = append(s.whole, whole[id])
	}
	tidy := !s.cutOff
	orphans := map[string]bool{}
	for id := uint64(2); s.isDamaged() && id < uint64(len(s.sound)); id++ {
		progress(int64(id)*pageBytes, size)
		if !s.sound[id] && !s.isLost(id) {
			tidy = s.free(id, orphans) && tidy
		}
	}
	progress(size, size)
	for n, page := range s.lost {
		s.whole[n] = s.whole[n] || tidy && s.isBranch(page, orphans)
	}
	s.finish()
	return s
}

// read gives the bytes of a value, which are checked again.
func (s *salvager) read(p place) ([]byte, error) {
	value := make([]byte, p.size)
	if _, err := s.r.ReadAt(value, p.at); err != nil {
		return nil, &CorruptError{File: databaseName, Byte: p.at, Offset: -1, What: err.Error()}
	}
	return value, nil
}
