package timerwheel_test

import (
	"fmt"
	"slices"
	"time"

	"github.com/holdfast-go/holdfast/timerwheel"
)

// session embeds its timer by value, and the timer's Value points back to the session.
type session struct {
	name  string
	timer timerwheel.Timer[*session]
}

func newSession(name string) *session {
	s := &session{name: name}
	s.timer.Value = s
	return s
}

func Example() {
	batches := make(chan []*timerwheel.Timer[*session], 1)
	wheel, err := timerwheel.New(
		timerwheel.Options{Width: 10 * time.Millisecond},
		func(batch []*timerwheel.Timer[*session]) { batches <- batch }, // pass on, return
	)
	if err != nil {
		panic(err)
	}

	a, b, c := newSession("a"), newSession("b"), newSession("c")
	at := wheel.Now() + 50*time.Millisecond
	wheel.Add(&a.timer, at)
	wheel.Add(&b.timer, at)
	wheel.Add(&c.timer, at)
	fmt.Println("c cancelled:", wheel.Cancel(&c.timer))

	batch := <-batches
	var names []string
	for _, t := range batch {
		names = append(names, t.Value.name)
	}
	slices.Sort(names)
	fmt.Println("due together:", names)

	wheel.AddAll(batch, wheel.Now()+time.Minute) // once more
	wheel.Recycle(batch)                         // done with the slice
	fmt.Println("left at the end:", len(wheel.Stop()))
	// Output:
	// c cancelled: true
	// due together: [a b]
	// left at the end: 2
}
