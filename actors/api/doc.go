// Package api is the actor message API inside the engine: it makes requests of the messages of package protocol, and messages of answers.
//
// A router calls Read with each message that is not the engine's own, and routes the request. The engine calls Answer when the actor of a
// lock has answered it. Messages to users' actors go through the outbox. Nothing here decides anything about locks.
package api
