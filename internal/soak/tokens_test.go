package soak_test

import (
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast"
)

// tokens are the tokens of one fenced lock, each with the times at which its acquire began and at which the user received the token.
type tokens struct {
	mu  sync.Mutex
	all []token
}

type token struct {
	call, got time.Time
	token     int64
}

func (s *tokens) add(call time.Time, lease *holdfast.Lease) {
	if lease.Token() == 0 {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.all = append(s.all, token{call, time.Now(), lease.Token()})
}

// disorder returns an error text for each token that is out of order. A token must be larger than all tokens that users had received before its
// acquire began. Then disorder forgets all tokens except the one that was received last.
func (s *tokens) disorder() (wrong []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	asked, got := slices.Clone(s.all), slices.Clone(s.all)
	slices.SortFunc(asked, func(a, b token) int { return a.call.Compare(b.call) })
	slices.SortFunc(got, func(a, b token) int { return a.got.Compare(b.got) })
	var before token
	for _, t := range asked {
		for ; len(got) > 0 && got[0].got.Before(t.call); got = got[1:] {
			if got[0].token > before.token {
				before = got[0]
			}
		}
		if t.token <= before.token {
			wrong = append(wrong, fmt.Sprintf("token %d came after %d", t.token, before.token))
		}
	}
	if len(s.all) > 0 {
		s.all = []token{slices.MaxFunc(s.all, func(a, b token) int { return a.got.Compare(b.got) })}
	}
	return wrong
}
