package holdfast.interop;

import static java.util.concurrent.TimeUnit.MILLISECONDS;

import java.util.Arrays;
import java.util.concurrent.CompletionStage;
import org.redisson.api.RCountDownLatch;
import org.redisson.api.RPermitExpirableSemaphore;
import org.redisson.api.RSemaphore;

/**
 * Semaphores, permit semaphores and latches. All verbs take {@code client= name=}. A lease of -1 ms never ends.
 *
 * <pre>
 * semaphore-set n=   semaphore-acquire n=   semaphore-try n= [wait=ms]  semaphore-release n=   semaphore-add n=
 * semaphore-drain    semaphore-available    semaphore-delete
 * permit-set n=      permit-acquire lease=ms   permit-try wait=ms lease=ms   permit-release permit=   permit-available
 * permit-lease permit=                         the rest of its lease in ms; an error if it is not held
 * permit-give permit=                          true: it was held
 * permit-give-all permit=,...                  the number released: all of them or none
 * permit-replace n=  permit-add n=          permit-acquired          permit-all             permit-delete
 * latch-set n=       latch-await [wait=ms]  latch-down                 latch-count            latch-delete
 * </pre>
 */
final class Counters {

    private final Clients clients;

    Counters(Clients clients) {
        this.clients = clients;
    }

    CompletionStage<?> carryOut(Request request) {
        return switch (request.verb().split("-")[0]) {
            case "semaphore" -> carryOut(request, clients.get(request).getSemaphore(request.text("name")));
            case "permit" -> carryOut(request, clients.get(request).getPermitExpirableSemaphore(request.text("name")));
            default -> carryOut(request, clients.get(request).getCountDownLatch(request.text("name")));
        };
    }

    private static CompletionStage<?> carryOut(Request request, RSemaphore semaphore) {
        int n = (int) request.number("n", 1);
        return switch (request.verb()) {
            case "semaphore-set" -> semaphore.trySetPermitsAsync(n);
            case "semaphore-acquire" -> semaphore.acquireAsync(n);
            case "semaphore-try" -> request.arguments().containsKey("wait")
                ? semaphore.tryAcquireAsync(n, request.number("wait"), MILLISECONDS)
                : semaphore.tryAcquireAsync(n);
            case "semaphore-release" -> semaphore.releaseAsync(n);
            case "semaphore-add" -> semaphore.addPermitsAsync(n);
            case "semaphore-drain" -> semaphore.drainPermitsAsync();
            case "semaphore-available" -> semaphore.availablePermitsAsync();
            case "semaphore-delete" -> semaphore.deleteAsync();
            default -> throw new IllegalArgumentException("no such verb: " + request.verb());
        };
    }

    private static CompletionStage<?> carryOut(Request request, RPermitExpirableSemaphore semaphore) {
        long lease = request.number("lease", -1);
        return switch (request.verb()) {
            case "permit-set" -> semaphore.trySetPermitsAsync((int) request.number("n"));
            case "permit-acquire" -> semaphore.acquireAsync(lease, MILLISECONDS);
            case "permit-try" -> semaphore.tryAcquireAsync(request.number("wait"), lease, MILLISECONDS);
            case "permit-release" -> semaphore.releaseAsync(request.text("permit"));
            case "permit-give" -> semaphore.tryReleaseAsync(request.text("permit"));
            case "permit-give-all" -> semaphore.tryReleaseAsync(Arrays.asList(request.text("permit").split(",")));
            case "permit-replace" -> semaphore.setPermitsAsync((int) request.number("n"));
            case "permit-add" -> semaphore.addPermitsAsync((int) request.number("n"));
            case "permit-available" -> semaphore.availablePermitsAsync();
            case "permit-acquired" -> semaphore.acquiredPermitsAsync();
            case "permit-all" -> semaphore.getPermitsAsync();
            case "permit-delete" -> semaphore.deleteAsync();
            case "permit-lease" -> semaphore.getLeaseTimeAsync(request.text("permit"));
            default -> throw new IllegalArgumentException("no such verb: " + request.verb());
        };
    }

    private static CompletionStage<?> carryOut(Request request, RCountDownLatch latch) {
        return switch (request.verb()) {
            case "latch-set" -> latch.trySetCountAsync(request.number("n"));
            case "latch-await" -> request.number("wait", -1) < 0 ? latch.awaitAsync()
                : latch.awaitAsync(request.number("wait"), MILLISECONDS);
            case "latch-down" -> latch.countDownAsync();
            case "latch-count" -> latch.getCountAsync();
            case "latch-delete" -> latch.deleteAsync();
            default -> throw new IllegalArgumentException("no such verb: " + request.verb());
        };
    }
}
