package sparsemeta

import (
	"fmt"
	"math"
	"slices"
)

// Branch is a matrix or vector of the model that has fast weights.
type Branch struct {
	Name string
	Size int // number of elements
}

// Settings are the constants in equations 3 to 6 of the paper.
type Settings struct {
	// decay of the gradient average I, one for each bank, 0 to 1
	Gammas []float32 `json:"gammas"`
	Beta1  float32   `json:"beta1"` // weight of the gradient G in the gradient average I
	// weight of the gradient G in the input of g, which is I + Beta2 G, times Learner.Scale
	Beta2 float32 `json:"beta2"`
	// P is the probability that an update writes an element of M, rounded to a multiple of 1/65536.
	P   float64 `json:"p"`
	Out float32 `json:"out"` // factor on the output of g; 1 in the paper
}

// PaperSettings returns the settings with which the paper evaluates character-level models.
func PaperSettings() Settings {
	return Settings{Gammas: []float32{0.999}, Beta1: 0.5, Beta2: 0.5, P: 0.5, Out: 1}
}

// TwoBankSettings returns the settings of online meta-training with chunks of 64 tokens. The fast
// bank averages gradients over about 6,400 tokens, the slow bank over about 256,000.
func TwoBankSettings() Settings {
	return Settings{Gammas: []float32{0.99, 0.99975}, Beta1: 0.5, Beta2: 0.5, P: 0.5, Out: 0.01}
}

// WindowSettings returns the settings of the paper's meta-training (Algorithm 1).
func WindowSettings() Settings {
	return Settings{Gammas: []float32{0}, Beta1: 0, Beta2: 1, P: 0.05, Out: 1}
}

// MaxBanks is the maximum number of banks. It limits the memory of a session, which holds two
// arrays for each bank.
const MaxBanks = 8

// SettingError reports a field of Settings that is out of range.
type SettingError struct{ Field, Found, Want string }

func (e *SettingError) Error() string {
	return fmt.Sprintf("sparsemeta: settings: %s: found %s, want %s", e.Field, e.Found, e.Want)
}

// Validate returns a *SettingError for the first field that is out of range.
func (s Settings) Validate() error {
	bad := func(field string, found any, want string) error {
		return &SettingError{Field: field, Found: fmt.Sprint(found), Want: want}
	}
	if n := len(s.Gammas); n < 1 || n > MaxBanks {
		return bad("gammas", fmt.Sprintf("%d numbers", n), fmt.Sprintf("1 to %d, one a bank",
			MaxBanks))
	}
	for i, gamma := range s.Gammas {
		if !(gamma >= 0 && gamma <= 1) {
			return bad(fmt.Sprintf("gammas[%d]", i), gamma, "a number from 0 to 1")
		}
	}
	if !(s.Beta1 >= 0 && s.Beta1 <= math.MaxFloat32) {
		return bad("beta1", s.Beta1, "a finite number, 0 or more")
	}
	if !(s.Beta2 >= 0 && s.Beta2 <= math.MaxFloat32) {
		return bad("beta2", s.Beta2, "a finite number, 0 or more")
	}
	if !(s.P >= 0 && s.P <= 1) {
		return bad("p", s.P, "a number from 0 to 1")
	}
	if !(s.Out > 0 && s.Out <= math.MaxFloat32) {
		return bad("out", s.Out, "a finite number above 0")
	}
	return nil
}

// Learner contains the parameters of the fast weights, which are fixed before a stream begins. A
// Learner must not change while streams use it.
type Learner struct {
	Branches []Branch
	Settings Settings
	Phi      [][]Network // [bank][branch]
	// factors on the inputs of g, one per element of the branches; nil means 1
	Scale  []float32
	Normal *Normal // argument of the Normalize call that made Scale; nil if there was none
}

// Normalize computes Scale from statistics of gradients. s must contain every branch.
func (l *Learner) Normalize(n Normal, s *Statistics) error {
	if err := n.Validate(); err != nil {
		return err
	}
	scale := make([]float32, 0, l.Size())
	for _, b := range l.Branches {
		i := slices.Index(s.Branches, b)
		if i < 0 {
			return fmt.Errorf("sparsemeta: normal: found no statistics of the gradients of %s "+
				"(%d elements)", b.Name, b.Size)
		}
		scale = s.factors(scale, i, n)
	}
	l.Normal, l.Scale = &n, scale
	return nil
}

// Size returns the number of elements of all branches together.
func (l *Learner) Size() int { return arenaSize(l.Branches) }

func arenaSize(branches []Branch) int {
	size := 0
	for _, b := range branches {
		size += b.Size
	}
	return size
}

// Validate checks the settings, the networks and the scale. Each branch of each bank must have
// one network of finite weights. The scale, if any, must have a positive factor for every
// element.
func (l *Learner) Validate() error {
	if err := l.Settings.Validate(); err != nil {
		return err
	}
	if len(l.Branches) == 0 {
		return fmt.Errorf("sparsemeta: learner: found no branch, want one or more")
	}
	for i, b := range l.Branches {
		if b.Size <= 0 {
			return fmt.Errorf("sparsemeta: learner: branch %d (%s): found size %d, want 1 or more",
				i, b.Name, b.Size)
		}
	}
	if len(l.Phi) != len(l.Settings.Gammas) {
		return fmt.Errorf("sparsemeta: learner: found networks for %d banks, want %d, one for "+
			"each gamma", len(l.Phi), len(l.Settings.Gammas))
	}
	for bank, networks := range l.Phi {
		if len(networks) != len(l.Branches) {
			return fmt.Errorf("sparsemeta: learner: bank %d: found %d networks, want %d, one for "+
				"each branch", bank, len(networks), len(l.Branches))
		}
		for i := range networks {
			if err := networks[i].Validate(); err != nil {
				return fmt.Errorf("sparsemeta: learner: bank %d: %s: %w", bank, l.Branches[i].Name,
					err)
			}
		}
	}
	return l.validateScale()
}

// Accept returns a *SettingError if the learner cannot run with settings s. The settings must be in
// range and have one gamma for each bank of the learner.
func (l *Learner) Accept(s Settings) error {
	if err := s.Validate(); err != nil {
		return err
	}
	if len(s.Gammas) != len(l.Phi) {
		return &SettingError{Field: "gammas", Found: fmt.Sprintf("%d numbers", len(s.Gammas)),
			Want: fmt.Sprintf("%d, one a bank of the model", len(l.Phi))}
	}
	return nil
}

func (l *Learner) validateScale() error {
	if l.Scale == nil {
		return nil
	}
	if len(l.Scale) != l.Size() {
		return fmt.Errorf("sparsemeta: learner: scale: found %d factors, want %d", len(l.Scale),
			l.Size())
	}
	for i, v := range l.Scale {
		if !(v > 0 && v <= math.MaxFloat32) {
			return fmt.Errorf("sparsemeta: learner: scale[%d]: found %v, want a finite number "+
				"above 0", i, v)
		}
	}
	return nil
}
