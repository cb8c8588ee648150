// Package outbox delivers to the user's code: messages to the user's actors (Outbox), and events to Options.OnEvent and the logger
// (Events). The user's code may block, panic or end its goroutine. No part of a runtime waits for it, except Close, for a bounded time. The
// package knows nothing of locks.
package outbox
