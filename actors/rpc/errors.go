package rpc

import "fmt"

// The causes of a call without a reply from Redis.
var (
	ErrNoAnswer = timeout("no answer")
	ErrNotSent  = timeout("not sent")

	ErrNoAnswerYet = fmt.Errorf("%w from Redis yet", ErrNoAnswer)
)

// timeout is an error that says that something was not done in time. It is a net.Error.
type timeout string

func (e timeout) Error() string { return string(e) }
func (timeout) Timeout() bool   { return true }
func (timeout) Temporary() bool { return true }
