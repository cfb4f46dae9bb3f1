package session

import (
	"fmt"
	"slices"
	"time"
)

// A shadow is a session that the server feeds with the text of another session, the followed
// session. Shadows serve to compare two models or settings on the same text. A shadow has its own
// log, state and owner. Its results are bit-identical to those of a session that a client fed with
// the same text. The server reads the text from the log of the followed session (follower.go).

// feedable returns an error if the session is a shadow, because only the server feeds shadows.
func (s *session) feedable() error {
	if of := s.shadowOf(); of != "" {
		return &ShadowError{ID: s.ID, Of: of}
	}
	return nil
}

func (s *session) followed() *session {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.mu.following.of
}

// follow makes session s a shadow of another session. It fails if the other session was deleted, or
// already has ShadowsMax shadows.
func (s *session) follow(of *session) error {
	of.mu.Lock()
	defer of.mu.Unlock()
	if of.deleted.Load() {
		return ErrNotFound
	}
	if n := len(of.mu.following.shadows); n >= ShadowsMax {
		return &FieldError{"shadow_of", fmt.Sprintf("a session with %d shadows", n),
			fmt.Sprintf("a session with at most %d shadows", ShadowsMax-1)}
	}
	of.mu.following.shadows = append(of.mu.following.shadows, s)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mu.following.of = of
	return nil
}

// leave ends the following of another session. It returns the session that was followed, or nil if
// there was none.
func (s *session) leave() (of *session) {
	s.mu.Lock()
	of = s.mu.following.of
	s.mu.following.of = nil
	s.mu.Unlock()
	if of == nil {
		return nil
	}
	of.mu.Lock()
	defer of.mu.Unlock()
	of.mu.following.shadows = slices.DeleteFunc(slices.Clone(of.mu.following.shadows),
		func(other *session) bool { return other == s })
	return of
}

// takenUp reports whether the session is still a shadow. If so, the caller may feed the session,
// and must call leftAlone afterwards.
func (s *session) takenUp() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.mu.following.of == nil {
		return false
	}
	s.mu.following.turn.Add(1)
	return true
}

func (s *session) leftAlone() { s.mu.following.turn.Done() }

// awaitFollower waits until the server neither feeds the shadow nor waits for the right to feed the
// shadow.
func (s *session) awaitFollower() { s.mu.following.turn.Wait() }

// wake records that new text waits for the shadow. It reports whether the caller must start the
// goroutine that feeds the shadow.
func (s *session) wake() (idle bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	idle = !s.mu.following.running
	s.mu.following.more, s.mu.following.running = true, true
	return idle
}

func (s *session) beginFollowing() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mu.following.more = false
}

// endFollowing records the error that ended the feeding of the shadow, or nil. It returns true if
// err is nil and new text has arrived meanwhile.
func (s *session) endFollowing(err error) (more bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mu.following.stalled = err
	s.mu.following.running = err == nil && s.mu.following.more
	return s.mu.following.running
}

// wakeAfter calls wake after a pause, to retry a failed feeding of the shadow. A further call of
// wakeAfter restarts the pause.
func (s *session) wakeAfter(pause time.Duration, wake func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if timer := s.mu.following.rest; timer != nil {
		timer.Reset(pause)
		return
	}
	s.mu.following.rest = time.AfterFunc(pause, wake)
}

// compare stores a comparison of the totals of the shadow and the followed session. It returns the
// comparison stored before, or nil.
func (s *session) compare(c Comparison) (before *Comparison) {
	s.mu.Lock()
	defer s.mu.Unlock()
	before, s.mu.following.last = s.mu.following.last, &c
	return before
}

// linkTo describes one of two linked sessions for the Info of its counterpart. Parameter other is
// the described session: either followed or shadow.
func linkTo(other, followed, shadow *session) Shadow {
	at, has := followed.seen(), shadow.seen()
	other.mu.Lock()
	name := other.Name
	other.mu.Unlock()
	shadow.mu.Lock()
	compared, stalled := shadow.mu.following.last, shadow.mu.following.stalled
	shadow.mu.Unlock()
	if at.offset == has.offset && at.offset > 0 && !at.blind && !has.blind {
		stalled = nil
		compared = &Comparison{
			Offset:   at.offset,
			Followed: followed.account(at.tally, at.baseline),
			Shadow:   shadow.account(has.tally, has.baseline),
		}
	}
	return Shadow{
		ID: other.ID, Name: name, Model: other.Model.id(),
		Words:  other.model != nil && other.model.OfWords(),
		Offset: has.offset, Behind: max(0, at.offset-has.offset), Err: stalled, Compared: compared,
	}
}

// addLinks adds the links between shadows and followed sessions to a session's description. It
// leaves out shadows that the caller may not see.
func (s *session) addLinks(who Caller, i *Info) {
	if id := s.shadowOf(); id != "" {
		link := Shadow{ID: id, Offset: i.Offset, Err: ErrNotFound}
		if of := s.followed(); of != nil && of.alive() == nil {
			link = linkTo(of, of, s)
		}
		i.ShadowOf = &link
	}
	for _, shadow := range s.shadows() {
		if who.sees(shadow.Owner) {
			i.Shadows = append(i.Shadows, linkTo(shadow, s, shadow))
		}
	}
}
