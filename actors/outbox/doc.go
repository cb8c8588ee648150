// Package outbox calls the user's code: it delivers messages to the user's actors (Outbox), and events to Options.OnEvent and the logger (Events).
// The user's code may block, panic or end its goroutine. Only Close waits for that code, and only for a bounded time. The package knows nothing of
// locks.
package outbox
