package sessionlog

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"hash/fnv"
	"io"
	"math/bits"
	"slices"
)

// bbolt trusts its pages, which have no checksum: what a damaged one makes it do goes from a wrong
// answer to the end of the process. Here they are read without it, and must be exactly what it
// writes (bbolt v1.5.0, internal/common/page.go, meta.go, bucket.go; node.go for what a tree is).
//
//	page:           id u64, flags u16, count u16, overflow u32; elements; keys and values
//	branch element: position of the key u32, its size u32, page u64
//	leaf element:   flags u32, position of the key u32, its size u32, size of the value after it u32
//	bucket:         root page u64 (0: the page follows here), sequence u64
//	meta page:      page header; magic u32, version u32, page size u32, flags u32, root bucket, free list u64, pages u64, transaction u64,
//	                FNV-1a u64 of these
//
// Numbers are in the order of the machine. Positions count from the element's own first byte.
const (
	pageBytes       = 4096
	pageHeaderBytes = 16
	elementBytes    = 16
	bucketBytes     = 16
	metaBytes       = 64

	branchPage    = 0x01
	leafPage      = 0x02
	metaPage      = 0x04
	bucketElement = 0x01

	metaMagic   = 0xED0CDAED
	metaVersion = 2
	noFreelist  = ^uint64(0)

	treeHeightMax = 32 // 2^32 pages, were there only two to a branch
)

var native = binary.NativeEndian

// meta is what a meta page says.
type meta struct {
	root  uint64 // page
	pages uint64 // pages in use, and free ones between them
	txid  uint64
}

// layout tells which pages of a file are in use.
type layout struct {
	meta meta
	size int64 // of the file
	used []bool
}

// inspector walks through the pages of a file.
type inspector struct {
	r      io.ReaderAt
	layout layout
	levels [treeHeightMax]level // of the tree that is being walked

	buckets []string // that were found
	visit   func(bucket string, key, value []byte, at int64)
	report  func(*CorruptError)
	lost    func(lostPage)     // told of every page that cannot be used; nil: nobody is told
	sound   func(id, n uint64) // told of every n pages from id on that can; nil: nobody is told
	leaves  map[string]int     // depth of the leaves, by bucket
	clean   bool
}

// lostPage is a page of a tree that cannot be read as what it should be: a leaf, or a branch with
// all that is below it.
type lostPage struct {
	id     uint64
	depth  int
	bucket string // "": the root bucket
	// first and limit bound the keys under the page: first <= key < limit; nil: no bound.
	first, limit []byte
	err          error
}

// level is the memory for a page and its elements.
type level struct {
	page     []byte
	elements []element
}

// inspectPages walks through a file of size bytes. It visits every key outside the root bucket, in
// order, with the position of its value; visit may be nil. It reports all that is wrong, and goes
// on behind it. The error is ErrCorrupt if anything was.
func inspectPages(r io.ReaderAt, size int64, visit func(bucket string, key, value []byte, at int64), report func(*CorruptError)) (layout, error) {
	m, ok := readMeta(r, size, report)
	if !ok && m.pages == 0 {
		return layout{}, ErrCorrupt
	}
	i := &inspector{r: r, layout: layout{meta: m, size: size, used: make([]bool, m.pages)}, visit: visit, report: report, clean: ok}
	i.layout.used[0], i.layout.used[1] = true, true
	i.tree(m.root, 0, "", nil, nil)
	if i.clean && !hasBuckets(i.buckets) {
		i.damage(int64(m.root)*pageBytes, "", nil, fmt.Errorf("buckets %q, expected %q", i.buckets, buckets))
	}
	if !i.clean {
		return i.layout, ErrCorrupt
	}
	return i.layout, nil
}

// readMeta gives what the newer meta page says; not ok if anything is wrong, and with no pages if
// nothing can be known.
func readMeta(r io.ReaderAt, size int64, report func(*CorruptError)) (newest meta, ok bool) {
	wrong := func(at int64, format string, args ...any) {
		ok = false
		report(&CorruptError{File: databaseName, Byte: at, Offset: -1, What: fmt.Sprintf(format, args...)})
	}
	ok = true
	if size < 2*pageBytes || size%pageBytes != 0 {
		wrong(size, "the file has %d bytes, expected a multiple of %d, at least %d", size, pageBytes, 2*pageBytes)
	}
	var metas [2]meta
	for n := range metas {
		var err error
		if metas[n], err = oneMeta(r, uint64(n)); err != nil {
			wrong(int64(n)*pageBytes, "meta page: %v", err)
		} else if metas[n].pages > uint64(size/pageBytes) {
			wrong(int64(n)*pageBytes, "meta page: %d pages, expected at most %d in %d bytes", metas[n].pages, size/pageBytes, size)
			metas[n] = meta{}
		}
	}
	newest, older := metas[0], metas[1]
	if newest.txid < older.txid {
		newest, older = older, newest
	}
	if ok && newest.txid != older.txid+1 {
		wrong(0, "meta pages: transactions %d and %d, expected one to be the other's next", older.txid, newest.txid)
	}
	return newest, ok
}

func oneMeta(r io.ReaderAt, n uint64) (meta, error) {
	var b [pageHeaderBytes + metaBytes]byte
	if _, err := r.ReadAt(b[:], int64(n)*pageBytes); err != nil {
		return meta{}, err
	}
	body := b[pageHeaderBytes:]
	h := fnv.New64a()
	h.Write(body[:56])
	m := meta{root: native.Uint64(body[16:]), pages: native.Uint64(body[40:]), txid: native.Uint64(body[48:])}
	for _, field := range []struct {
		name       string
		have, want uint64
	}{
		{"magic", uint64(native.Uint32(body)), metaMagic},
		{"checksum", native.Uint64(body[56:]), h.Sum64()},
		{"version", uint64(native.Uint32(body[4:])), metaVersion},
		{"page size", uint64(native.Uint32(body[8:])), pageBytes},
		{"number of the page", native.Uint64(b[:]), n},
		{"type of the page", uint64(native.Uint16(b[8:])), metaPage},
		{"parity of the transaction", m.txid % 2, n},
		{"sequence of the root bucket", native.Uint64(body[24:]), 0},
		{"free list", native.Uint64(body[32:]), noFreelist},
	} {
		if field.have != field.want && !(field.name == "free list" && m.txid < 2) { // bbolt's first two transactions make the file
			return meta{}, fmt.Errorf("%s %#x, expected %#x", field.name, field.have, field.want)
		}
	}
	if m.root < 2 || m.root >= m.pages {
		return meta{}, fmt.Errorf("root page %d, expected 2 to %d", m.root, int64(m.pages)-1)
	}
	return m, nil
}

// element is one of a page.
type element struct {
	flags      uint32 // of a leaf
	child      uint64 // of a branch
	key, value []byte
	at         int64 // position of the value in the file
}

// tree walks through the pages under one of a bucket ("": the root bucket). Their first key must be
// first, unless that is nil, and all less than limit.
func (i *inspector) tree(id uint64, depth int, bucket string, first, limit []byte) {
	at := int64(id) * pageBytes
	elements, leaf, err := i.load(id, depth)
	switch {
	case err != nil:
	case len(elements) == 0:
		if first != nil || !leaf { // only a bucket may be empty
			err = fmt.Errorf("no elements, expected some")
		}
	case first != nil && !bytes.Equal(elements[0].key, first):
		err = fmt.Errorf("first key %q, expected %q as in the branch page above", elements[0].key, first)
	case limit != nil && bytes.Compare(elements[len(elements)-1].key, limit) >= 0:
		err = fmt.Errorf("last key %q, expected less than %q, the next in the branch page above", elements[len(elements)-1].key, limit)
	}
	if err != nil {
		i.damage(at, bucket, first, err)
		if i.lost != nil {
			// Where the bounds above and the keys here differ, a value's checksum tells which are right.
			right := func(e element) bool { return !leaf || bucketOf(e.key, e.value) != "" }
			n := len(elements)
			if n > 0 && bytes.Compare(elements[0].key, first) < 0 && right(elements[0]) {
				first = elements[0].key
			}
			if n > 0 && limit != nil && bytes.Compare(elements[n-1].key, limit) >= 0 && right(elements[n-1]) {
				limit = append(bytes.Clone(elements[n-1].key), 0)
			}
			i.lost(lostPage{id: id, depth: depth, bucket: bucket,
				first: bytes.Clone(first), limit: bytes.Clone(limit), err: err})
		}
		return
	}
	if leaf && i.leaves != nil {
		i.leaves[bucket] = depth
	}
	if i.sound != nil {
		i.sound(id, uint64(native.Uint32(i.levels[depth].page[12:]))+1)
	}
	for n, e := range elements {
		switch {
		case !leaf:
			next := limit
			if n+1 < len(elements) {
				next = elements[n+1].key
			}
			i.tree(e.child, depth+1, bucket, e.key, next)
		case bucket == "":
			i.bucket(e, depth)
		default:
			i.leaf(bucket, e)
		}
	}
}

// bucket walks through one that is named in the root bucket.
func (i *inspector) bucket(e element, depth int) {
	name := string(e.key)
	if i.lost != nil { // what damage has left is wanted
		name = mendedName(name)
	}
	i.buckets = append(i.buckets, name)
	if e.flags != bucketElement || len(e.value) < bucketBytes {
		i.damage(e.at, "", nil, fmt.Errorf("key %.80q has flags %#x and a value of %d bytes, expected a bucket", name, e.flags, len(e.value)))
		i.loseBucket(name, e, depth)
		return
	}
	if sequence := native.Uint64(e.value[8:]); sequence != 0 {
		i.damage(e.at, "", nil, fmt.Errorf("sequence of bucket %s %d, expected 0", name, sequence))
	}
	root, inline := native.Uint64(e.value), e.value[bucketBytes:]
	if root != 0 {
		if len(inline) != 0 {
			i.damage(e.at, "", nil, fmt.Errorf("bucket %s has root page %d and %d bytes, expected one of the two", name, root, len(inline)))
			i.loseBucket(name, e, depth)
			return
		}
		i.tree(root, depth+1, name, nil, nil)
		return
	}
	elements, leaf, size, err := parsePage(nil, inline, 0, e.at+bucketBytes)
	if err == nil && (!leaf || size != len(inline)) {
		err = fmt.Errorf("page of %d bytes within bucket %s, expected a leaf of %d", len(inline), name, size)
	}
	if err != nil {
		i.damage(e.at, name, nil, err)
		i.loseBucket(name, e, depth)
		return
	}
	for _, e := range elements {
		i.leaf(name, e)
	}
}

// mendedName is the name of the bucket that differs from a name in one bit at most, else the name
// itself. If the guess were wrong, the checksums of the bucket's values would say so.
func mendedName(name string) string {
	for _, known := range allBuckets {
		if len(known) != len(name) {
			continue
		}
		wrong := 0
		for k := range len(name) {
			wrong += bits.OnesCount8(name[k] ^ known[k])
		}
		if wrong <= 1 {
			return known
		}
	}
	return name
}

// loseBucket tells that nothing of a bucket can be reached.
func (i *inspector) loseBucket(name string, e element, depth int) {
	if i.lost != nil {
		i.lost(lostPage{id: uint64(e.at / pageBytes), depth: depth, bucket: name,
			err: fmt.Errorf("the entry of bucket %s cannot be used", name)})
	}
}

func (i *inspector) leaf(bucket string, e element) {
	if e.flags != 0 {
		err := fmt.Errorf("key %.80q has flags %#x, expected 0", e.key, e.flags)
		i.damage(e.at, bucket, e.key, err)
		if i.lost != nil {
			i.lost(lostPage{id: uint64(e.at / pageBytes), depth: treeHeightMax, bucket: bucket, first: bytes.Clone(e.key),
				limit: append(bytes.Clone(e.key), 0), err: err})
		}
	} else if i.visit != nil {
		i.visit(bucket, e.key, e.value, e.at)
	}
}

// load reads a page, with those it overflows into, and marks them as used.
func (i *inspector) load(id uint64, depth int) (elements []element, leaf bool, err error) {
	pages := i.layout.meta.pages
	if depth >= treeHeightMax {
		return nil, false, fmt.Errorf("page %d is %d levels deep, expected less", id, depth)
	}
	if id < 2 || id >= pages {
		return nil, false, fmt.Errorf("page %d, expected 2 to %d", id, pages-1)
	}
	l := &i.levels[depth]
	if l.page == nil {
		l.page = make([]byte, pageBytes)
	}
	if _, err := i.r.ReadAt(l.page[:pageBytes], int64(id)*pageBytes); err != nil {
		return nil, false, err
	}
	n := uint64(native.Uint32(l.page[12:])) + 1
	if n > pages-id {
		return nil, false, fmt.Errorf("page overflows into %d, expected at most %d", n-1, pages-id-1)
	}
	for k := id; k < id+n; k++ {
		if i.layout.used[k] {
			return nil, false, fmt.Errorf("page %d is used twice", k)
		}
	}
	for k := id; k < id+n; k++ {
		i.layout.used[k] = true
	}
	if n > 1 {
		l.page = slices.Grow(l.page[:pageBytes], int(n-1)*pageBytes)[:n*pageBytes]
		if _, err := i.r.ReadAt(l.page[pageBytes:], int64(id+1)*pageBytes); err != nil {
			return nil, false, err
		}
	}
	elements, leaf, size, err := parsePage(l.elements, l.page[:n*pageBytes], id, int64(id)*pageBytes)
	l.elements = elements
	if want := uint64(size+pageBytes-1) / pageBytes; err == nil && n != want {
		return nil, false, fmt.Errorf("page overflows into %d, expected %d for %d bytes", n-1, want-1, size)
	}
	return elements, leaf, err
}

// parsePage takes a page at a position of the file apart, into memory that it may use again, and
// tells how many of its bytes mean something.
func parsePage(memory []element, page []byte, id uint64, at int64) (elements []element, leaf bool, size int, err error) {
	if len(page) < pageHeaderBytes {
		return nil, false, 0, fmt.Errorf("page of %d bytes, expected at least %d", len(page), pageHeaderBytes)
	}
	if have := native.Uint64(page); have != id {
		return nil, false, 0, fmt.Errorf("page says it is page %d, expected %d", have, id)
	}
	flags, count := native.Uint16(page[8:]), int(native.Uint16(page[10:]))
	if flags != branchPage && flags != leafPage {
		return nil, false, 0, fmt.Errorf("page of type %#x, expected %#x (branch) or %#x (leaf)", flags, branchPage, leafPage)
	}
	leaf = flags == leafPage
	size = pageHeaderBytes + count*elementBytes
	if size > len(page) {
		return nil, false, 0, fmt.Errorf("%d elements in %d bytes, expected fewer", count, len(page))
	}
	elements = slices.Grow(memory[:0], count)[:count]
	for n := range elements {
		begin := pageHeaderBytes + n*elementBytes
		e, keySize, valueSize, position := parseElement(page[begin:], leaf)
		if begin+position != size || keySize < 1 || valueSize < 0 || keySize > len(page)-size || valueSize > len(page)-size-keySize {
			return nil, false, 0, fmt.Errorf("element %d has %d + %d bytes at %d, expected some at %d, up to %d",
				n, keySize, valueSize, begin+position, size, len(page))
		}
		e.key, e.value = page[size:size+keySize], page[size+keySize:size+keySize+valueSize]
		e.at = at + int64(size+keySize)
		if n > 0 && bytes.Compare(elements[n-1].key, e.key) >= 0 {
			return nil, false, 0, fmt.Errorf("key %.80q of element %d, expected more than %.80q, the one before it", e.key, n, elements[n-1].key)
		}
		elements[n] = e
		size += keySize + valueSize
	}
	return elements, leaf, size, nil
}

func parseElement(b []byte, leaf bool) (e element, keySize, valueSize, position int) {
	if leaf {
		e.flags = native.Uint32(b)
		return e, int(native.Uint32(b[8:])), int(native.Uint32(b[12:])), int(native.Uint32(b[4:]))
	}
	e.child = native.Uint64(b[8:])
	return e, int(native.Uint32(b[4:])), 0, int(native.Uint32(b))
}

// damage reports what is wrong at a position, or under a key.
func (i *inspector) damage(at int64, bucket string, key []byte, err error) {
	i.clean = false
	d := &CorruptError{File: databaseName, Byte: at, Offset: -1, What: err.Error()}
	switch bucket {
	case sessionBucket:
		d.Session = string(key)
	case logBucket, snapshotBucket:
		if id, offset, err := splitKey(key); err == nil {
			d.Session, d.Offset = id, offset
		}
	}
	i.report(d)
}

// inUse is the number of pages that are in use.
func (l *layout) inUse() (n int64) {
	for _, used := range l.used {
		if used {
			n++
		}
	}
	return n
}
