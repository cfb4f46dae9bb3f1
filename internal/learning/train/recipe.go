package train

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"

	"github.com/lmserve/lmserve/internal/arithmetic/model"
	"github.com/lmserve/lmserve/internal/learning/train/corpus"
	"github.com/lmserve/lmserve/tokenizer"
	"github.com/lmserve/lmserve/txl"
)

// Recipe identifies a run. It contains everything that the resulting weights depend on, except the
// arithmetic. Only a run with the same recipe can resume a checkpoint. The number of pretraining
// steps may differ; see shortened.
type Recipe struct {
	Phases []string   `json:"phases"`
	Name   string     `json:"name"`
	Init   string     `json:"init,omitempty"` // hash of the model that the run started from
	Model  txl.Config `json:"model"`
	// Words is nil for a model of bytes.
	Words   *WordsRecord `json:"words,omitempty"`
	Data    TextRecord   `json:"data"`
	HoldOut []string     `json:"hold_out,omitempty"`
	Valid   *TextRecord  `json:"valid,omitempty"`
	// KeptBack says that Valid and Data are two parts of the same directory.
	KeptBack bool   `json:"kept_back,omitempty"`
	Seed     uint64 `json:"seed"`
	// Pretrain is nil if the run has no PhasePretrain.
	Pretrain *PretrainOptions `json:"pretrain,omitempty"`
	Meta     *MetaOptions     `json:"meta,omitempty"` // nil if the run is only pretraining
	// Companion is nil if the run is not only pretraining, and in checkpoints of older programs.
	Companion *CompanionRecord `json:"pretrain_companion,omitempty"`
	// Joint is nil if the run has no PhaseJoint.
	Joint      *JointOptions      `json:"joint,omitempty"`
	Chunk      int                `json:"chunk"`
	Validation *ValidationOptions `json:"validation,omitempty"`
}

// CompanionRecord has the fields of MetaOptions that also affect pretraining: its validations and
// the resulting model.
type CompanionRecord struct {
	Used    bool    `json:"used"`
	Mixture float32 `json:"mixture"`
	Bytes   int     `json:"bytes"`
	Alone   bool    `json:"alone"`
}

// TextRecord identifies a directory of text.
type TextRecord struct {
	Files       int      `json:"files"`
	Bytes       int      `json:"bytes"`
	Domains     []string `json:"domains,omitempty"`
	Fingerprint string   `json:"fingerprint"`
}

// WordsRecord identifies a vocabulary.
type WordsRecord struct {
	// Vocabulary is the name of the vocabulary's file. It is empty if the vocabulary was made from
	// the text, with the options Size and MinCount.
	Vocabulary  string `json:"vocabulary,omitempty"`
	Size        int    `json:"size,omitempty"`
	MinCount    int64  `json:"min_count,omitempty"`
	Fingerprint string `json:"fingerprint"`
}

func recordOfWords(o TokenizerOptions, tok tokenizer.Tokenizer) *WordsRecord {
	words, ok := tok.(*tokenizer.Words)
	if !ok {
		return nil
	}
	sum := sha256.Sum256(words.Symbols())
	r := &WordsRecord{Vocabulary: o.Vocabulary, Fingerprint: hex.EncodeToString(sum[:8])}
	if o.Vocabulary == "" {
		r.Size, r.MinCount = o.Size, o.MinCount
	}
	return r
}

func recordOf(c *corpus.Corpus) TextRecord {
	return TextRecord{len(c.Documents), c.Bytes(), c.Domains(), c.Fingerprint()}
}

// newRecipe returns the recipe of a run. Defaults must be filled in the options. init is the hash
// of the initial model, or "" if there is none. valid may be nil.
func newRecipe(
	o *Options, base *model.Model, init string, text TextRecord, valid *TextRecord,
) Recipe {
	r := Recipe{
		Phases: o.Phases, Name: o.Name, Init: init, Model: base.LM.Config, Data: text,
		Words:   recordOfWords(o.Tokenizer, base.Tokenizer),
		HoldOut: o.HoldOut, Seed: o.Seed, Chunk: o.Meta.Chunk,
	}
	if m := &o.Meta; !o.trainsLearner() {
		r.Companion = &CompanionRecord{m.Companion, m.Mixture, m.CompanionBytes, m.CompanionAlone}
	}
	for _, phase := range o.Phases {
		if phase == PhasePretrain {
			r.Pretrain = &o.Pretrain
			continue
		}
		r.Meta = &o.Meta
		if phase == PhaseJoint {
			r.Joint = &o.Joint
		}
	}
	if valid != nil {
		r.Valid, r.KeptBack, r.Validation = valid, o.Valid == "", &o.Validation
	}
	return r
}

// Fields returns the recipe's fields under their JSON names. Numbers are of type json.Number.
func (r Recipe) Fields() (map[string]any, error) {
	text, err := json.Marshal(r)
	if err != nil {
		return nil, err
	}
	return decodeFields(text)
}

// decodeFields keeps numbers as text, because a float64 cannot represent every seed.
func decodeFields(text []byte) (fields map[string]any, err error) {
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	err = d.Decode(&fields)
	return fields, err
}

// card describes the training in a model's file. It contains nothing that differs between runs of
// the same recipe. So a resumed run writes the same file as an uninterrupted run.
type card struct {
	Recipe  Recipe        `json:"recipe"`
	Results []PhaseReport `json:"results"`
	Store   string        `json:"store"`           // type of the slow weights in the file
	Stored  *Measurement  `json:"valid,omitempty"` // measurement with the weights as stored
	// Companion says that the meta-learners learned with a companion before this run, which has
	// not trained them. Otherwise the recipe says so.
	Companion bool `json:"companion,omitempty"`
	// Numerics is the arithmetic of the machine; see kernel.Arithmetic.Numerics.
	Numerics string `json:"numerics"`
}
