package checkpoint

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
)

// scanner reads and checks a whole pickle before any object is created. A pickle may have only
// supported instructions, lengths within the input, allowed classes, and objects that fit into
// memory.
type scanner struct {
	in      *bufio.Reader
	pickle  []byte
	allowed func(module, name string) bool
	memo    []span
	top     [2]span // the two objects on top of the stack, the topmost last
	memory  int64   // estimated memory of the objects, in bytes
}

// span is the range of a string's bytes in the pickle. The zero value means an object that is not a
// string. No string begins at byte 0, because an opcode precedes every string.
type span struct{ from, to int }

func scanPickle(in *bufio.Reader, allowed func(module, name string) bool) ([]byte, error) {
	s := &scanner{in: in, allowed: allowed}
	for {
		done, err := s.instruction()
		if err != nil {
			return nil, err
		}
		if done {
			return s.pickle, nil
		}
	}
}

// instruction reads one instruction. The result done is true if the instruction ends the pickle.
func (s *scanner) instruction() (done bool, err error) {
	at := len(s.pickle)
	if err := s.read(1, "an opcode"); err != nil {
		return false, err
	}
	code := s.pickle[at]
	op := &opcodes[code]
	if op.name == "" {
		found := fmt.Sprintf("opcode 0x%02x", code)
		if name, ok := refusedOpcodes[code]; ok {
			found = "opcode " + name
		}
		return false, s.fail(at, found, "an instruction that checkpoints use", ErrFormat)
	}
	from, err := s.argument(op)
	if err != nil {
		return false, err
	}
	s.memory += int64(op.memory)
	if err := s.follow(op, at, span{from, len(s.pickle)}); err != nil {
		return false, err
	}
	if s.memory > maxPickleMemory {
		most := strconv.Itoa(maxPickleMemory>>20) + " MiB"
		return false, s.fail(at, "objects of more than "+most, "at most "+most, ErrTooLarge)
	}
	return op.effect == stop, nil
}

// argument appends an opcode's argument to s.pickle. The result `from` is the index at which the
// content begins, after the length if there is one.
func (s *scanner) argument(op *opcode) (from int, err error) {
	begin, n := len(s.pickle), int(op.argument)
	switch {
	case op.argument == lines2:
		if err := s.line(op.name); err != nil {
			return 0, err
		}
		return begin, s.line(op.name)
	case n < 0:
		return begin - n, s.counted(-n, op.name)
	}
	return begin, s.read(n, op.name)
}

// follow tracks the strings on the stack and in the memo. Two strings can name a class, which must
// be allowed. Each use of a string can cost memory.
func (s *scanner) follow(op *opcode, at int, content span) error {
	argument := s.pickle[content.from:content.to]
	switch op.effect {
	case stop, aside:
		return s.aside(op, at, argument)
	case text:
		s.push(content)
	case number:
		if n := len(argument); n == 0 || n > 16 {
			return s.fail(at, "an integer of "+strconv.Itoa(n)+" bytes", "1 to 16 bytes", ErrFormat)
		}
		s.push(span{})
	case put:
		return s.note(at, index(argument))
	case memoize:
		return s.note(at, len(s.memo))
	case get:
		i := index(argument)
		if i >= len(s.memo) {
			return s.fail(at, "memo "+strconv.Itoa(i), "the number of an earlier memo",
				ErrFormat)
		}
		s.push(s.memo[i])
	case global:
		s.push(span{})
		module, name, _ := strings.Cut(string(argument), "\n")
		return s.class(at, module, strings.TrimSuffix(name, "\n"))
	case stackGlobal:
		module, name := s.top[0], s.top[1]
		if module == (span{}) || name == (span{}) {
			return s.fail(at, "a class whose name is computed", "a class named by two strings",
				ErrClass)
		}
		s.top = [2]span{}
		return s.class(at, s.text(module), s.text(name))
	default:
		s.top = [2]span{}
	}
	return nil
}

// aside checks the protocol's version and the size of a frame.
func (s *scanner) aside(op *opcode, at int, argument []byte) error {
	if op.name == "PROTO" && (argument[0] < 2 || argument[0] > 5) {
		return s.fail(at, "protocol "+strconv.Itoa(int(argument[0])), "2 to 5", ErrFormat)
	}
	if op.name == "FRAME" {
		if n := binary.LittleEndian.Uint64(argument); n > maxPickleBytes {
			return s.fail(at, "a frame of "+strconv.FormatUint(n, 10)+" bytes",
				"at most "+strconv.Itoa(maxPickleBytes), ErrTooLarge)
		}
	}
	return nil
}

func (s *scanner) push(o span) {
	s.top = [2]span{s.top[1], o}
	// The factor 8 covers copies of the string in error messages of the pickle library.
	s.memory += 8 * int64(o.to-o.from)
}

// note stores the top of the stack as entry i of the memo. A new entry must follow the last one.
func (s *scanner) note(at, i int) error {
	if i > len(s.memo) {
		return s.fail(at, "memo "+strconv.Itoa(i), "at most "+strconv.Itoa(len(s.memo)), ErrFormat)
	}
	if i == len(s.memo) {
		s.memo = append(s.memo, span{})
	}
	s.memo[i] = s.top[1]
	return nil
}

func (s *scanner) class(at int, module, name string) error {
	if s.allowed(module, name) {
		return nil
	}
	return s.fail(at, quote(module+"."+name), "a class of tensors, of the reference's modules, "+
		"or of "+
		"plain containers", ErrClass)
}

func (s *scanner) text(o span) string { return string(s.pickle[o.from:o.to]) }

func index(argument []byte) int {
	if len(argument) == 1 {
		return int(argument[0])
	}
	return int(binary.LittleEndian.Uint32(argument))
}

// read appends n bytes to s.pickle, in steps: a short file that states a large length must not
// allocate much memory.
func (s *scanner) read(n int, what string) error {
	if n > maxPickleBytes-len(s.pickle) {
		most := strconv.Itoa(maxPickleBytes>>20) + " MiB"
		return s.fail(len(s.pickle), "a pickle of more than "+most, "at most "+most, ErrTooLarge)
	}
	const step = 64 << 10
	for n > 0 {
		k := min(n, step)
		at := len(s.pickle)
		s.pickle = append(s.pickle, make([]byte, k)...)
		if _, err := io.ReadFull(s.in, s.pickle[at:]); err != nil {
			return s.short(err, what)
		}
		n -= k
	}
	return nil
}

// counted reads a length, stored in the given number of bytes, and then content of this length.
func (s *scanner) counted(bytes int, what string) error {
	at := len(s.pickle)
	if err := s.read(bytes, what); err != nil {
		return err
	}
	var length [8]byte
	copy(length[:], s.pickle[at:])
	n := binary.LittleEndian.Uint64(length[:])
	if n > maxPickleBytes {
		return s.fail(at, what+" of "+strconv.FormatUint(n, 10)+" bytes",
			"at most "+strconv.Itoa(maxPickleBytes), ErrTooLarge)
	}
	return s.read(int(n), what)
}

func (s *scanner) line(what string) error {
	for range maxLineBytes {
		if err := s.read(1, what); err != nil {
			return err
		}
		if s.pickle[len(s.pickle)-1] == '\n' {
			return nil
		}
	}
	most := strconv.Itoa(maxLineBytes) + " bytes"
	return s.fail(len(s.pickle), what+" of more than "+most, "at most "+most, ErrTooLarge)
}

func (s *scanner) fail(at int, found, want string, kind error) error {
	return &Error{Where: "pickle", Offset: int64(at), Found: found, Want: want, Kind: kind}
}

// short returns the error for a failed read. An end of the input within a pickle becomes an error
// of kind ErrFormat.
func (s *scanner) short(err error, what string) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return s.fail(len(s.pickle), "the end of the file", "the rest of "+what, ErrFormat)
	}
	return fmt.Errorf("checkpoint: reading: %w", err)
}
