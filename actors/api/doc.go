// Package api is the actor message API inside the engine: it makes requests of the messages of package protocol, and messages of answers.
//
// A front calls Read with each message of a user, and sends the request on through the registry. The engine calls Answer when the actor of a
// lock has answered it. Messages to users' actors go through the outbox. Nothing here decides anything about locks.
package api
