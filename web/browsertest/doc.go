// Package browsertest opens the page of package web in a real browser, and takes the pictures of it in doc. It is a module of its own, so that the
// main module does not depend on the driver of the browser.
package browsertest
