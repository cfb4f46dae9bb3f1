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

// scanner reads a whole pickle before any object is made of it, and checks it against the needs of
// a checkpoint. It allows only known instructions, lengths within the input, classes on the list,
// and objects that fit into memory.
type scanner struct {
	in      *bufio.Reader
	pickle  []byte // what was read so far
	allowed func(module, name string) bool
	memo    []span
	top     [2]span // the two objects on top of the stack, the topmost last
	memory  int64   // estimated memory of the objects
}

// span is the place of a string in the pickle. The zero value means that the object is not a
// string: no string begins at byte 0, where its opcode would be.
type span struct{ from, to int }

// scanPickle reads one pickle from the reader, up to its end, and returns its bytes.
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

// argument reads the argument of an opcode, and returns where its content begins.
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

// follow tracks strings on the stack and in the memo: two of them may name a class, and a string
// may be copied to each place that uses it.
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

// aside checks instructions about the pickle that do not affect its objects.
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
	// The factor 8 covers copies of the string in the library's errors, which quote it.
	s.memory += 8 * int64(o.to-o.from)
}

// note records the top of the stack in the memo, whose numbers count from 0.
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

// class checks the name of a class against the list.
func (s *scanner) class(at int, module, name string) error {
	if s.allowed(module, name) {
		return nil
	}
	return s.fail(at, quote(module+"."+name), "a class of tensors, of the reference's modules, "+
		"or of "+
		"plain containers", ErrClass)
}

func (s *scanner) text(o span) string { return string(s.pickle[o.from:o.to]) }

// index returns a number of the memo, of one or four bytes.
func index(argument []byte) int {
	if len(argument) == 1 {
		return int(argument[0])
	}
	return int(binary.LittleEndian.Uint32(argument))
}

// read reads n bytes; memory grows as they arrive.
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

// counted reads a length of the given size, and then the number of bytes that the length states.
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

// short converts the end of input inside a pickle to an error of the format.
func (s *scanner) short(err error, what string) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return s.fail(len(s.pickle), "the end of the file", "the rest of "+what, ErrFormat)
	}
	return fmt.Errorf("checkpoint: reading: %w", err)
}
