package actors

import "strings"

// Join joins errors like errors.Join, but in one line instead of one line each.
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

// Error joins the texts of the errors.
func (j joined) Error() string {
	texts := make([]string, len(j))
	for i, err := range j {
		texts[i] = err.Error()
	}
	return strings.Join(texts, "; ")
}

// Unwrap lets errors.Is and errors.As look at each error.
func (j joined) Unwrap() []error { return j }
