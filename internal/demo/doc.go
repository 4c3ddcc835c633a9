// Package demo makes load to look at: jobs of several types, tenants and
// priorities, handlers that fail and hang, and workers that die with all that
// they hold. It keeps accounts of every job, to say at the end that none was
// lost.
package demo
