package actors

import "strings"

// Join makes one error of several, without the nil ones, in one line: errors.Join would make a line of each.
func Join(errs ...error) error {
	var some joined
	for _, err := range errs {
		if err != nil {
			some = append(some, err)
		}
	}
	switch len(some) {
	case 0:
		return nil
	case 1:
		return some[0]
	}
	return some
}

type joined []error

// Error is what they say, one after the other.
func (j joined) Error() string {
	texts := make([]string, len(j))
	for i, err := range j {
		texts[i] = err.Error()
	}
	return strings.Join(texts, "; ")
}

// Unwrap makes errors.Is and errors.As look at each.
func (j joined) Unwrap() []error { return j }
