package rpc

import "fmt"

// Why there is no result of a call.
var (
	ErrNoAnswer = timeout("no answer")
	ErrNotSent  = timeout("not sent")

	ErrNoAnswerYet = fmt.Errorf("%w from Redis yet", ErrNoAnswer)
)

// timeout is the error of what was not done in time, a net.Error.
type timeout string

func (e timeout) Error() string { return string(e) }
func (timeout) Timeout() bool   { return true }
func (timeout) Temporary() bool { return true }
