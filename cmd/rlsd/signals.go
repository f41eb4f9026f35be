package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"
)

// signals returns a context that ends with the first SIGINT or SIGTERM, or with
// ctx, and one that ends with the second. Until release is called these do not
// end the process; a third does, whatever it hangs on. A reader of the log that
// goes away does not end it either.
func signals(ctx context.Context) (first, second context.Context, release func()) {
	first, endFirst := context.WithCancel(ctx)
	second, endSecond := context.WithCancel(context.WithoutCancel(ctx))
	received := make(chan os.Signal, 2)
	signal.Notify(received, os.Interrupt, syscall.SIGTERM)
	signal.Ignore(syscall.SIGPIPE)
	released := make(chan struct{})
	go func() {
		for _, end := range []context.CancelFunc{endFirst, endSecond} {
			select {
			case <-received:
				end()
			case <-released:
				return
			}
		}
		signal.Stop(received)
	}()
	return first, second, func() {
		signal.Stop(received)
		close(released)
		endFirst()
		endSecond()
	}
}

// hangups returns a channel that receives from SIGHUP, several at once as one,
// and until release is called it ends nothing.
func hangups() (received <-chan os.Signal, release func()) {
	c := make(chan os.Signal, 1)
	signal.Notify(c, syscall.SIGHUP)
	return c, func() { signal.Stop(c) }
}
