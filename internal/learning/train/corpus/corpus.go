// Package corpus reads the text on which a model is trained, from a directory of files. It keeps
// back a part of the text for validation, and determines the order in which training reads the
// rest.
//
// A seed determines all random choices. The state of a Reader or of a Pieces is small and can be
// saved. After a restoration, reading continues with the same tokens.
package corpus

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/dustin/go-humanize"
	"github.com/dustin/go-humanize/english"

	"github.com/lmserve/lmserve/internal/documents"
)

// bytesMax is the largest text of a directory, in bytes. The whole text is held in memory.
const bytesMax = 16 << 30

// ErrData is wrapped by every error about missing, unreadable, empty or too little text.
var ErrData = errors.New("train: data")

// Corpus is the text of a directory. The documents are sorted by name, and no document is empty.
type Corpus struct {
	Dir       string
	Documents []Document
}

// Load reads the files that documents.List finds in dir. It reads at most limit bytes of each file,
// or all bytes if limit is 0. Errors wrap ErrData and name the file or directory. If ctx ends, Load
// returns ctx.Err() before the next file.
func Load(ctx context.Context, dir string, limit int) (*Corpus, error) {
	files, err := documents.List(dir, int64(limit))
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrData, err)
	}
	if len(files) == 0 {
		return nil, fmt.Errorf("%w: directory %s contains no text: expected at least one file "+
			"that is not empty", ErrData, dir)
	}
	c := &Corpus{Dir: dir}
	total := int64(0)
	for _, f := range files {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		if total += f.Size; total > bytesMax {
			return nil, fmt.Errorf("%w: directory %s contains more than %d bytes of text, the "+
				"maximum", ErrData,
				dir, int64(bytesMax))
		}
		text, err := f.Read()
		if err != nil {
			return nil, fmt.Errorf("%w: %w", ErrData, err)
		}
		c.Documents = append(c.Documents, NewDocument(f.Name, text))
	}
	slices.SortFunc(c.Documents, func(a, b Document) int { return cmp.Compare(a.Name, b.Name) })
	return c, nil
}

// Bytes returns the number of bytes in all documents.
func (c *Corpus) Bytes() int {
	n := 0
	for _, d := range c.Documents {
		n += d.Bytes()
	}
	return n
}

// Tokens returns the number of tokens in all documents. Until the documents are encoded, each byte
// is a token.
func (c *Corpus) Tokens() int {
	n := 0
	for _, d := range c.Documents {
		n += d.Len()
	}
	return n
}

// Unit returns the unit of Tokens, for messages: "bytes", or "tokens" after encoding.
func (c *Corpus) Unit() string {
	if len(c.Documents) > 0 && c.Documents[0].ids != nil {
		return "tokens"
	}
	return "bytes"
}

// Joined returns the text of all documents as one document. Either all documents must be encoded,
// or none of them.
func (c *Corpus) Joined() Document {
	var all Document
	for _, d := range c.Documents {
		all.Text, all.ids = append(all.Text, d.Text...), append(all.ids, d.ids...)
		all.size += d.size
	}
	return all
}

// Domains lists the corpus's domains in alphabetical order.
func (c *Corpus) Domains() []string {
	var domains []string
	for _, d := range c.Documents {
		if !slices.Contains(domains, d.Domain) {
			domains = append(domains, d.Domain)
		}
	}
	slices.Sort(domains)
	return domains
}

// String describes the size of the corpus: the numbers of bytes, files and domains.
func (c *Corpus) String() string {
	return fmt.Sprintf("%s bytes in %s and %s", humanize.Comma(int64(c.Bytes())),
		plural(len(c.Documents), "file"), plural(len(c.Domains()), "domain"))
}

func plural(n int, what string) string {
	return humanize.Comma(int64(n)) + " " + english.PluralWord(n, what, "")
}

// Without returns a corpus that lacks the documents of the given domains. An unknown domain, or an
// empty result, is an error.
func (c *Corpus) Without(domains []string) (*Corpus, error) {
	known := c.Domains()
	for _, d := range domains {
		if !slices.Contains(known, d) {
			return nil,
				fmt.Errorf("%w: directory %s has no domain %q to hold out, expected one of %s",
					ErrData, c.Dir, d, strings.Join(known, ", "))
		}
	}
	rest := &Corpus{Dir: c.Dir}
	for _, d := range c.Documents {
		if !slices.Contains(domains, d.Domain) {
			rest.Documents = append(rest.Documents, d)
		}
	}
	if len(rest.Documents) == 0 {
		return nil, fmt.Errorf("%w: directory %s: every domain is held out (%s); no text is left "+
			"for pretraining",
			ErrData, c.Dir, strings.Join(known, ", "))
	}
	return rest, nil
}

// Shared returns the name of the first document of c whose file is also a document of other. Links
// to a file are the file. Shared returns "" if the two corpora share no file. Both must be loaded
// from directories.
func (c *Corpus) Shared(other *Corpus) (name string, err error) {
	theirs, err := other.files()
	if err != nil {
		return "", err
	}
	ours, err := c.files()
	if err != nil {
		return "", err
	}
	known := map[string]bool{}
	for _, file := range theirs {
		known[file] = true
	}
	for i, file := range ours {
		if known[file] {
			return c.Documents[i].Name, nil
		}
	}
	return "", nil
}

// files returns the absolute paths of the documents' files, without links.
func (c *Corpus) files() ([]string, error) {
	root, err := filepath.EvalSymlinks(c.Dir)
	if err == nil {
		root, err = filepath.Abs(root)
	}
	files := make([]string, len(c.Documents))
	for i := 0; i < len(files) && err == nil; i++ {
		name := filepath.FromSlash(c.Documents[i].Name)
		files[i], err = filepath.EvalSymlinks(filepath.Join(root, name))
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrData, err)
	}
	return files, nil
}

// Need returns an error unless the corpus has at least size tokens. The parameter `what` states the
// purpose of the tokens, for the error.
func (c *Corpus) Need(size int, what string) error {
	if have := c.Tokens(); have < size {
		return fmt.Errorf("%w: directory %s contains %d %s of text in %d files, expected at "+
			"least %d (%s)",
			ErrData, c.Dir, have, c.Unit(), len(c.Documents), size, what)
	}
	return nil
}

// Fingerprint returns a hash of the names and texts of all documents. A resumed run compares
// hashes, because it needs the same text. Call Fingerprint before Encode, which removes the text.
func (c *Corpus) Fingerprint() string {
	h := sha256.New()
	var size [16]byte
	for _, d := range c.Documents {
		binary.LittleEndian.PutUint64(size[:8], uint64(len(d.Name)))
		binary.LittleEndian.PutUint64(size[8:], uint64(len(d.Text)))
		h.Write(size[:])
		h.Write([]byte(d.Name))
		h.Write(d.Text)
	}
	return hex.EncodeToString(h.Sum(nil)[:8])
}
