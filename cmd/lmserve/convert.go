package main

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/lmserve/lmserve/internal/arithmetic/model"
	"github.com/lmserve/lmserve/internal/arithmetic/setting"
	"github.com/lmserve/lmserve/internal/learning/checkpoint"
	"github.com/lmserve/lmserve/tokenizer"
	"github.com/lmserve/lmserve/weights"
)

// convertChunkBytes and convertChunkWords are the chunk lengths of converted models, in tokens: 128
// bytes or 50 words.
const (
	convertChunkBytes = 128
	convertChunkWords = 50
)

// clusterOrderName is the flag for the order of the softmax's clusters. Its value orderAuto means
// the order that the checkpoint's format implies.
const (
	clusterOrderName = "cluster-order"
	orderAuto        = "auto"
)

type convertFlags struct {
	out, name, config, vocab string
	memLen, segLen, clampLen int
	sameLength, preLNorm     bool
	cutoffs                  []int
	order                    string
}

func newConvert() *cobra.Command {
	var f convertFlags
	c := &cobra.Command{
		Use:   "convert FROM --out FILE",
		Short: "Convert a checkpoint of PyTorch or Hugging Face's library to a model",
		Long: `Convert a Transformer-XL checkpoint of another program to a file for --model and
'train --init'. FROM is a file or a folder:
  model.pt        a pickled model of the reference implementation
  *.pt, *.bin     a state dict written by torch.save, of any version since 0.4
  *.safetensors   a state dict as safetensors
  a folder        Hugging Face's layout: config.json with pytorch_model.bin or
                  model.safetensors and a vocabulary; or a folder with a model.pt
Nothing in these files is executed. A pickle may refer only to tensors, the reference's
modules and plain containers; otherwise it is refused.

The shapes and names of a state dict determine only a part of the configuration. convert
asks for the rest: --mem-len, --pre-lnorm and, if clusters of the softmax share one
table, --cutoffs; or --config for everything.

The columns of the softmax's clusters are ascending in Hugging Face's layout, which
convert recognizes by its names, and descending in others; --cluster-order overrides
this. convert prints the order.

convert then scores a sample of plain English, of at most 512 tokens. It warns if the
model predicts the sample no better than a uniform guess, or better with the other
order.

A model of words needs its vocabulary: vocab.txt, or a pickle of the reference or of
Hugging Face. Without it, the file has weights only and cannot be served.`,
		Example: `  lmserve convert LM-TFM-wt103/model.pt --vocab vocab.txt --out wt103.safetensors
  lmserve convert transfo-xl-wt103 --out wt103.safetensors.zst
  lmserve convert state_dict.pt --mem-len 512 --pre-lnorm=false --out mine.safetensors`,
		Args: exactly(1, "a checkpoint"),
		RunE: func(c *cobra.Command, args []string) error {
			if f.out == "" {
				return usagef("--out is missing: name the file for the model")
			}
			if err := absent(f.out); err != nil {
				return err
			}
			return convert(c, f, args[0])
		},
	}
	f.register(c.Flags())
	return c
}

func (f *convertFlags) register(flags *pflag.FlagSet) {
	flags.StringVar(&f.out, "out", "",
		"file for the model, which must not exist; compressed if the name ends in .zst")
	flags.StringVar(&f.name, "name", "", "name of the model (default: the name of the file or "+
		"folder)")
	flags.StringVar(&f.config, "config", "",
		configUsage()+" (default: from the checkpoint)")
	flags.StringVar(&f.vocab, "vocab", "",
		"file of the vocabulary (default: the file in the folder)")
	flags.IntVar(&f.memLen, "mem-len", 0,
		"number of earlier tokens in the memory that each layer attends to")
	flags.IntVar(&f.segLen, "seg-len", 0,
		"usual number of tokens in a segment (default: the checkpoint's, or --mem-len)")
	flags.IntVar(&f.clampLen, "clamp-len", 0,
		"largest distance between two tokens that attention distinguishes (default: the "+
			"checkpoint's, or unlimited)")
	flags.BoolVar(&f.sameLength, "same-length", false,
		"same attention span, --mem-len tokens, for every position")
	flags.BoolVar(&f.preLNorm, "pre-lnorm", false,
		"normalization before attention and feed-forward layers, not after them")
	flags.IntSliceVar(&f.cutoffs, "cutoffs", nil,
		"first token of each cluster of the adaptive softmax except the head, such as "+
			"20000,40000,200000")
	flags.StringVar(&f.order, clusterOrderName, orderAuto,
		"order of the clusters' columns in the head: descending (as in the reference code\n"+
			"for PyTorch), ascending (as in that for TensorFlow, and in Hugging Face's library)\n"+
			"or auto (ascending in Hugging Face's layout, descending in others)")
}

// options returns the options of the checkpoint. Flags take precedence over the configuration file
// in --config.
func (f *convertFlags) options(c *cobra.Command) (checkpoint.Options, error) {
	flags := c.Flags()
	var o checkpoint.Options
	switch order := checkpoint.Order(f.order); order {
	case orderAuto:
	case checkpoint.Ascending, checkpoint.Descending:
		o.Order = order
	default:
		return o, usagef("--%s is %q, expected %s, %s or %s", clusterOrderName, f.order,
			orderAuto, checkpoint.Ascending, checkpoint.Descending)
	}
	if f.config != "" {
		_, config, err := readConfig(c.Context(), f.config, 0)
		if err != nil {
			return o, err
		}
		o.Config = &config
	}
	o.Settings = checkpoint.Settings{
		MemLen:     given(flags.Changed, memLenName, &f.memLen),
		SegLen:     given(flags.Changed, "seg-len", &f.segLen),
		ClampLen:   given(flags.Changed, clampLenName, &f.clampLen),
		SameLength: given(flags.Changed, sameLengthName, &f.sameLength),
		PreLNorm:   given(flags.Changed, "pre-lnorm", &f.preLNorm),
	}
	if flags.Changed("cutoffs") {
		o.Settings.Cutoffs = f.cutoffs
	}
	return o, nil
}

func convert(c *cobra.Command, f convertFlags, from string) error {
	options, err := f.options(c)
	if err != nil {
		return err
	}
	p := newProgress(c, "convert")
	defer p.end()
	p.say("reading the checkpoint")
	opened, err := checkpoint.Open(from)
	if err != nil {
		return err
	}
	defer opened.Close()
	m, err := opened.Convert(options)
	if err != nil {
		return asked(err)
	}
	if f.vocab == "" {
		f.vocab = opened.Vocabulary
	}
	file, err := fileOf(m, f, from)
	if err != nil {
		return err
	}
	p.begin("writing")
	if err := written(c, file, f.out, p); err != nil {
		return err
	}
	p.end()
	if err := convertReport(c, opened.Form, file, f.out); err != nil {
		return err
	}
	if m.Order != "" {
		fmt.Fprintf(c.OutOrStdout(), "  order of the clusters: %s, because %s\n", m.Order,
			cmp.Or(m.Why, "--"+clusterOrderName+" says"))
	}
	if file.Metadata["lmserve.tokenizer"] == "" {
		return nil
	}
	return tryConverted(c, f.out, m.Order)
}

// asked returns a usage error that names the flags for settings that the checkpoint lacks.
func asked(err error) error {
	var missing *checkpoint.Missing
	if !errors.As(err, &missing) {
		return err
	}
	return usageError{
		fmt.Errorf("%w, expected --%s, or --config", err, strings.Join(missing.Names, " and --")),
	}
}

func fileOf(m *checkpoint.Converted, f convertFlags, from string) (*weights.Stored, error) {
	tok, chunk, err := tokenizerOf(m, f.vocab)
	if err != nil {
		return nil, err
	}
	tensors := m.Tensors
	if tok != nil {
		if symbols := tok.Symbols(); symbols != nil {
			tensors = append(tensors, weights.StoredTensor{Name: model.SymbolsTensor,
				DType: weights.U8,
				Shape: []int{len(symbols)}, Bytes: int64(len(symbols)),
				Data: bytes.NewReader(symbols)})
		}
	}
	card, err := json.Marshal(map[string]string{"converted_from": filepath.Base(from)})
	if err != nil {
		return nil, err
	}
	if f.name == "" {
		f.name = nameOf(from)
	}
	metadata, err := model.StaticMetadata(f.name, m.Config, tok, chunk, card)
	return &weights.Stored{Metadata: metadata, Tensors: tensors}, err
}

// nameOf derives a model's name from a checkpoint: the name of its folder, or of its file without
// the extension.
func nameOf(from string) string {
	if whole, err := filepath.Abs(from); err == nil {
		from = whole // resolves "." to a name
	}
	base := filepath.Base(from)
	if info, err := os.Stat(from); err == nil && info.IsDir() {
		return base
	}
	return strings.TrimSuffix(base, filepath.Ext(base))
}

// tokenizerOf returns a model's tokenizer and its chunk length. With a vocabulary file, the tokens
// are words. Without a vocabulary, the tokens are bytes if the model has 256 tokens; otherwise the
// tokenizer is nil.
func tokenizerOf(m *checkpoint.Converted, vocab string) (tokenizer.Tokenizer, int, error) {
	if vocab != "" {
		words, err := checkpoint.ReadVocabulary(vocab)
		if err != nil {
			return nil, 0, err
		}
		if words.Vocab() != m.Config.Vocab {
			return nil, 0, fmt.Errorf("%s: found %d symbols, expected %d, the checkpoint's "+
				"number of embeddings",
				vocab, words.Vocab(), m.Config.Vocab)
		}
		return words, convertChunkWords, nil
	}
	if bytes := (tokenizer.Bytes{}); m.Config.Vocab == bytes.Vocab() {
		return bytes, convertChunkBytes, nil
	}
	return nil, convertChunkWords, nil
}

func written(c *cobra.Command, file *weights.Stored, out string, p *progress) error {
	var done, total int64
	for i := range file.Tensors {
		total += file.Tensors[i].Bytes
	}
	for i := range file.Tensors {
		data, before := file.Tensors[i].Data, done
		file.Tensors[i].Data = readerAt(func(b []byte, off int64) (int, error) {
			if err := c.Context().Err(); err != nil {
				return 0, err
			}
			n, err := data.ReadAt(b, off)
			p.set(before+off+int64(n), total)
			return n, err
		})
		done += file.Tensors[i].Bytes
	}
	return file.WriteFile(out, weights.OptionsFor(out))
}

type readerAt func(p []byte, off int64) (int, error)

func (r readerAt) ReadAt(p []byte, off int64) (int, error) { return r(p, off) }

func convertReport(c *cobra.Command, form checkpoint.Form, file *weights.Stored, out string) error {
	count := 0
	for i := range file.Tensors {
		if file.Tensors[i].Name != model.SymbolsTensor {
			count += file.Tensors[i].Elements()
		}
	}
	if file.Metadata["lmserve.tokenizer"] == "" {
		fmt.Fprintf(c.ErrOrStderr(),
			"lmserve: %s has no vocabulary and cannot be served: convert again with --vocab\n", out)
	}
	_, err := fmt.Fprintf(c.OutOrStdout(), "%s: %s, %s of %s, from %s\n  %s\n", out,
		setting.Count(len(file.Tensors), "tensor"), setting.Count(count, "weight"),
		file.Tensors[0].DType,
		form, file.Metadata["lmserve.config"])
	return err
}
