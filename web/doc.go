// Package web serves a page that shows the locks of a Redis: their holders, the remaining time of their leases, and their waiters. The page is an
// http.Handler. A service of your own may mount it under any prefix, with http.StripPrefix or without:
//
//	mux.Handle("/locks/", authenticated(web.Handler(client, web.Options{})))
//
// The page does not authenticate its viewers. Mount it behind the authentication of the service. It only reads, unless Options.AllowFree is set.
// Even with AllowFree, requests from other sites cannot free a lock.
//
// While somebody watches, the page looks at Redis at most once per second, no matter how many viewers there are. A look scans all keys, reads the
// locks that match Options.Pattern, and counts the waiters. It reads each lock with a few short commands. The page repeats a slow step less often:
// after a scan that took a second, the next scan begins four seconds later. When nobody watches, the page does nothing, so there is nothing to close.
// The section "Rights to look" of SECURITY.md lists the rights that the page needs. The history of a lock begins when the page is opened, and is
// forgotten when nobody has watched for ten seconds.
//
// The page works without JavaScript. With JavaScript it is live, by server-sent events. Streams of events end after five minutes, and browsers open
// them again. http.Server.Shutdown waits until all streams have ended. To end them at once, cancel the context of their requests: see the example.
package web
