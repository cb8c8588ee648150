// Package browsertest opens the page of package web in a real browser, and takes the pictures of it in doc. It is a module of its own, so
// that what drives the browser is no dependency of the library.
package browsertest
