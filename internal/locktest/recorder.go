package locktest

import (
	"sync"

	"github.com/holdfast-go/holdfast"
)

// Recorder keeps the events that Options.OnEvent gets.
type Recorder struct {
	Mu     sync.Mutex
	Events []holdfast.Event
}

// Record is a function for Options.OnEvent.
func (r *Recorder) Record(event holdfast.Event) {
	r.Mu.Lock()
	defer r.Mu.Unlock()
	r.Events = append(r.Events, event)
}

// Recorded returns the events of one type so far.
func Recorded[E holdfast.Event](r *Recorder) []E {
	r.Mu.Lock()
	defer r.Mu.Unlock()
	var all []E
	for _, event := range r.Events {
		if e, ok := event.(E); ok {
			all = append(all, e)
		}
	}
	return all
}
