package checkpoint

import (
	"bufio"
	"bytes"
	"io"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lmserve/lmserve/tokenizer"
)

// FuzzCheckpoint reads any bytes as a checkpoint, and converts an accepted checkpoint. Each step
// may return an error, but must not panic. A tensor that can be read has the announced size.
func FuzzCheckpoint(f *testing.F) {
	tensors := plain(4)
	f.Add(archiveOf(f, stateDict(tensors, false), arraysOf(tensors)))
	f.Add(legacyOf(stateDict(tensors, true), arraysOf(tensors)))
	f.Add(newPickler().global("os", "system").op(".").Bytes())
	f.Fuzz(func(t *testing.T, data []byte) {
		c, err := readBytes(data)
		if err != nil {
			var ours *Error
			require.ErrorAs(t, err, &ours)
			return
		}
		m, err := c.Convert(Options{Settings: known()})
		if err != nil {
			return
		}
		for _, tensor := range m.Tensors {
			if data, err := io.ReadAll(tensor.Reader()); err == nil {
				require.Len(t, data, int(tensor.Bytes))
			}
		}
	})
}

// FuzzPickle reads any bytes as a pickle. Bytes after the pickle's end must stay unread.
func FuzzPickle(f *testing.F) {
	f.Add(stateDict(plain(4), false))
	f.Add(vocabularyPickle("", "a b c", ""))
	f.Add(vocabularyPickle("cutils.vocabulary\nVocab\n)\x81", "a b", "b"))
	f.Fuzz(func(t *testing.T, data []byte) {
		const behind = "behind"
		in := bufio.NewReader(io.MultiReader(bytes.NewReader(data),
			bytes.NewReader([]byte(behind))))
		object, err := unpickle(in, func(id []any) (any, error) { return storageID(id) })
		if err != nil {
			require.Less(t, len(err.Error()), 2000)
			return
		}
		_, _ = stateOf(object) // may return an error, but must not panic
		_, _ = symbolsOf(object)
	})
}

func FuzzForeignVocabulary(f *testing.F) {
	f.Add([]byte("<eos> 3\n<unk>\nthe 7\n"))
	f.Add(vocabularyPickle("", "a b c", ""))
	f.Fuzz(func(t *testing.T, data []byte) {
		words, err := readVocabulary(bytes.NewReader(data), int64(len(data)))
		if err != nil {
			return
		}
		again, err := tokenizer.ReadSymbols(words.Symbols())
		require.NoError(t, err)
		require.Equal(t, words, again)
	})
}
