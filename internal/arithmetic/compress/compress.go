// Package compress compresses a text with a model. An arithmetic coder codes each byte by the
// stream's prediction, while the stream learns. The size of a file proves the bits that scoring
// reports, since the model can restore the text from the file.
//
// The format of a file, with big-endian numbers:
//
//	"LMSC", a byte with the version of the format, 2
//	length of the header, 4 bytes
//	header: JSON, see Header
//	SHA-256 of the header and the text
//	the text, arithmetically coded, to the end of the file
package compress

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/lmserve/lmserve/internal/arithmetic/model"
	"github.com/lmserve/lmserve/internal/arithmetic/setting"
	"github.com/lmserve/lmserve/internal/arithmetic/stream"
	"github.com/lmserve/lmserve/internal/strictjson"
)

// version is the version of the file format. A change of companion.Version needs a new version too,
// since neither the header nor the model's hash contains companion.Version.
const version = 2

const (
	magic     = "LMSC"
	headerMax = 64 << 10
)

// Header describes how a text was compressed.
type Header struct {
	Model string `json:"model"` // ID of the model, which contains a part of the model's hash
	// Numerics is the name of the arithmetic. See kernel.Arithmetic.Numerics.
	Numerics string `json:"numerics"`
	Bytes    int64  `json:"bytes"` // size of the uncompressed text
	Seed     uint64 `json:"seed,omitempty"`
	// Settings are the stream's settings that the model file does not determine. See
	// stream.Recorded.
	Settings setting.Values `json:"settings,omitempty"`
}

// Compressed is a compressed text.
type Compressed struct {
	Head []byte
	Text []byte
	Bits float64 // information of the text according to the model, in bits
}

// Write writes the complete file to w.
func (c *Compressed) Write(w io.Writer) error {
	if _, err := w.Write(c.Head); err != nil {
		return err
	}
	_, err := w.Write(c.Text)
	return err
}

// Compress compresses a text with a new stream of the model m. After every piece of the text,
// Compress calls the parameter `each` with the piece's number of bytes. Compress returns an error
// if the context is canceled, or if the model's tokens are not bytes.
func Compress(
	ctx context.Context, m *model.Model, set stream.Settings, threads int, text []byte,
	each func(bytes int),
) (c Compressed, err error) {
	if err := ofBytes(m); err != nil {
		return c, err
	}
	if c.Head, err = head(m, set, text); err != nil {
		return c, err
	}
	w := stream.NewWorker(m, threads)
	defer w.Close()
	s, out := stream.New(m, set), newEncoder()
	dist := newShares(m.Arithmetic.Vectors(), m.Tokenizer.Vocab())
	for len(text) > 0 {
		if err := ctx.Err(); err != nil {
			return c, err
		}
		read := w.Read(s, text, func(t stream.Token) {
			dist.set(t.LogProbs)
			from, size := dist.of(t.ID)
			out.encode(from, size, dist.total())
		})
		text = text[read:]
		each(read)
	}
	c.Text, c.Bits = out.end(), s.Tally.Bits
	return c, nil
}

func ofBytes(m *model.Model) error {
	if m.OfWords() {
		return fmt.Errorf("model %s is a model of words, which cannot represent unknown words; "+
			"expected a model of bytes", m.ID())
	}
	return nil
}

func head(m *model.Model, set stream.Settings, text []byte) ([]byte, error) {
	h := Header{
		Model: m.ID(), Numerics: m.Arithmetic.Numerics(), Bytes: int64(len(text)),
		Seed: set.Seed, Settings: stream.Recorded(m, set),
	}
	header, err := json.Marshal(h)
	if err != nil {
		return nil, err
	}
	b := binary.BigEndian.AppendUint32(append([]byte(magic), version), uint32(len(header)))
	b = append(b, header...)
	return append(b, checksum(header, text)...), nil
}

func checksum(header, text []byte) []byte {
	sum := sha256.New()
	sum.Write(header)
	sum.Write(text)
	return sum.Sum(nil)
}

// Reader reads a compressed text.
type Reader struct {
	Header
	header, sum []byte
	coded       []byte
}

// Read reads a whole file and opens it. If the file does not begin like a compressed text, Read
// returns an error without reading the rest, since such input may be endless.
func Read(in io.Reader) (*Reader, error) {
	file := make([]byte, len(magic))
	n, err := io.ReadFull(in, file)
	if err == nil && string(file) == magic {
		var rest []byte
		rest, err = io.ReadAll(in)
		file = append(file, rest...)
		n = len(file)
	}
	if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
		return nil, err
	}
	return Open(file[:n])
}

// Open parses a file up to the coded text. An error describes the fault and its offset in the file.
func Open(file []byte) (*Reader, error) {
	if !bytes.HasPrefix(file, []byte(magic)) {
		return nil, fmt.Errorf("byte 0: found %q, expected %q: the file is not a text compressed "+
			"by lmserve",
			file[:min(len(file), len(magic))], magic)
	}
	const length = len(magic) + 1 // offset of the four bytes with the header's length
	at := length + 4
	if len(file) < at {
		return nil, short(file, at, "the length of the header")
	}
	if found := file[len(magic)]; found != version {
		return nil, fmt.Errorf("byte %d: found version %d of the format, expected %d: the file "+
			"is from another version of lmserve",
			len(magic), found, version)
	}
	size := binary.BigEndian.Uint32(file[length:])
	if size > headerMax {
		return nil, fmt.Errorf("byte %d: the header has %d bytes, expected at most "+
			"%d", length, size,
			headerMax)
	}
	end := at + int(size)
	if len(file) < end+sha256.Size {
		return nil, short(file, end+sha256.Size, "the header and the checksum")
	}
	r := &Reader{header: file[at:end], sum: file[end : end+sha256.Size],
		coded: file[end+sha256.Size:]}
	if err := r.read(r.header); err != nil {
		return nil, fmt.Errorf("header: %w", err)
	}
	if r.Bytes < 0 {
		return nil, fmt.Errorf("header: the field \"bytes\" is %d, expected 0 or more", r.Bytes)
	}
	return r, nil
}

// read decodes the header. The table of settings gives the type of each setting.
func (h *Header) read(header []byte) (err error) {
	type plain Header
	read := struct {
		*plain
		Settings map[string]json.RawMessage `json:"settings"`
	}{plain: (*plain)(h)}
	if err := strictjson.Unmarshal(header, &read); err != nil {
		return err
	}
	h.Settings, err = stream.Table.Read(read.Settings)
	return err
}

func short(file []byte, want int, what string) error {
	return fmt.Errorf("the file ends at byte %d, expected at least %d bytes, including "+
		"%s", len(file), want,
		what)
}

// Check returns an error if the model cannot decompress the text.
func (r *Reader) Check(m *model.Model) error {
	switch numerics := m.Arithmetic.Numerics(); {
	case r.Model != m.ID():
		return fmt.Errorf("the model is %s, but the text was compressed with model %s", m.ID(),
			r.Model)
	case r.Numerics != numerics:
		return fmt.Errorf("the arithmetic is %s, but the text was compressed with %s; "+
			"--precision and the processor determine the arithmetic", numerics, r.Numerics)
	}
	if _, err := r.settings(m); err != nil {
		return fmt.Errorf("header: settings: %w", err)
	}
	return ofBytes(m)
}

func (r *Reader) settings(m *model.Model) (stream.Settings, error) {
	set, err := stream.With(m, r.Settings)
	set.Seed = r.Seed
	return set, err
}

var errDamaged = errors.New("the restored text and the original have different checksums: the " +
	"file is damaged, or was made on another kind of processor")

// Decompress writes the text piece by piece. If it returns an error, the text written so far may be
// wrong.
func (r *Reader) Decompress(ctx context.Context, m *model.Model, threads int, to io.Writer) error {
	if err := r.Check(m); err != nil {
		return err
	}
	set, err := r.settings(m)
	if err != nil {
		return err
	}
	w := stream.NewWorker(m, threads)
	defer w.Close()
	sum := sha256.New()
	sum.Write(r.header)
	in := &drawer{decoder: newDecoder(r.coded), shares: newShares(m.Arithmetic.Vectors(),
		m.Tokenizer.Vocab())}
	if err := r.draw(ctx, w, stream.New(m, set), in, io.MultiWriter(sum, to)); err != nil {
		return err
	}
	if n := in.beyond(); n < ahead {
		return fmt.Errorf("found %d bytes after the end of the text, expected none", ahead-n)
	}
	if !bytes.Equal(sum.Sum(nil), r.sum) {
		return errDamaged
	}
	return nil
}

// draw decodes the text: the stream samples symbols, and the coded text decides each sample.
func (r *Reader) draw(ctx context.Context, w *stream.Worker, s *stream.Stream, in *drawer,
	to io.Writer) (err error) {
	if r.Bytes == 0 {
		return nil
	}
	w.Sample(s, in, func(t stream.Token) bool {
		if _, err = to.Write(t.Text); err == nil {
			err = ctx.Err()
		}
		if err == nil && in.beyond() > ahead {
			err = fmt.Errorf("the file ends at byte %d of the text, expected a text of %d "+
				"bytes", s.Offset(), r.Bytes)
		}
		return err == nil && s.Offset() < r.Bytes
	})
	return err
}

type drawer struct {
	*decoder
	*shares
}

// Next implements stream.Drawer.
func (d *drawer) Next(logProbs []float32) int32 {
	d.set(logProbs)
	total := d.total()
	symbol := d.holder(d.part(total))
	from, size := d.of(symbol)
	d.narrow(from, size, total)
	return symbol
}
