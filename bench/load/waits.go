package load

import (
	"fmt"
	"sync"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// longest is the longest wait that a histogram can record. Longer waits are recorded as this value.
const longest = 10 * time.Minute

// NewHistogram returns a histogram of durations in ns, exact to three digits.
func NewHistogram() *hdrhistogram.Histogram { return hdrhistogram.New(1, int64(longest), 3) }

// waits is a histogram that many goroutines write to. It is split into a few parts, each shared by some of the goroutines. So the goroutines seldom
// wait for each other, and ten thousand of them do not need ten thousand histograms.
type waits struct{ parts []*part }

type part struct {
	mu sync.Mutex
	h  *hdrhistogram.Histogram
	_  [40]byte // keeps the next part off this cache line
}

func newWaits(goroutines int) *waits {
	w := &waits{parts: make([]*part, min(max(goroutines, 1), 16))}
	for i := range w.parts {
		w.parts[i] = &part{h: NewHistogram()}
	}
	return w
}

func (w *waits) add(goroutine, n int, d time.Duration) {
	p := w.parts[goroutine%len(w.parts)]
	p.mu.Lock()
	_ = p.h.RecordValues(min(max(int64(d), 1), int64(longest)), int64(n))
	p.mu.Unlock()
}

// encode returns the encoded sum of the parts.
func (w *waits) encode() (string, error) {
	all := NewHistogram()
	for _, p := range w.parts {
		all.Merge(p.h)
	}
	return Encode(all)
}

// Encode encodes a histogram for the results, in the V2 compressed format and in base64.
func Encode(h *hdrhistogram.Histogram) (string, error) {
	text, err := h.Encode(hdrhistogram.V2CompressedEncodingCookieBase)
	return string(text), err
}

// Decode reads a histogram that was encoded by Encode or by another implementation of the format.
func Decode(text string) (*hdrhistogram.Histogram, error) {
	h, err := hdrhistogram.Decode([]byte(text))
	if err != nil {
		return nil, fmt.Errorf("histogram: %w", err)
	}
	return h, nil
}
