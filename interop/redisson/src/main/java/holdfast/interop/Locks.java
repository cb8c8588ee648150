package holdfast.interop;

import static java.util.concurrent.TimeUnit.MILLISECONDS;

import java.util.Arrays;
import java.util.Map;
import java.util.concurrent.CompletionStage;
import java.util.concurrent.ConcurrentHashMap;
import org.redisson.api.RLock;
import org.redisson.api.RedissonClient;

/**
 * Locks of every kind. All verbs take {@code client= kind= name=}. The name of a multi lock or red lock is the names of its members,
 * separated by commas. With a lease of -1 ms, the watchdog renews the lease.
 *
 * <pre>
 * lock-acquire thread= [lease=ms]                 waits until that thread holds the lock
 * lock-try     thread= [wait=ms [lease=ms]]       true: held
 * lock-release thread=
 * lock-force                                      true: it was held; not for multi and red
 * lock-held    thread=                            true: held by that thread of this client
 * lock-token                                      the newest token of a fenced lock
 * </pre>
 */
final class Locks {

    private final Clients clients;
    private final Map<String, RLock> locks = new ConcurrentHashMap<>(); // one object per owner, because an RLock remembers its lease

    Locks(Clients clients) {
        this.clients = clients;
    }

    CompletionStage<?> carryOut(Request request) {
        RedissonClient client = clients.get(request);
        RLock lock = locks.computeIfAbsent(
            String.join(" ", request.text("client"), request.text("kind"), request.text("name"), request.text("thread", "")),
            who -> lock(client, request.text("kind"), request.text("name")));
        long lease = request.number("lease", -1);
        return switch (request.verb()) {
            case "lock-acquire" -> lock.lockAsync(lease, MILLISECONDS, request.number("thread"));
            case "lock-try" -> request.arguments().containsKey("wait")
                ? lock.tryLockAsync(request.number("wait"), lease, MILLISECONDS, request.number("thread"))
                : lock.tryLockAsync(request.number("thread"));
            case "lock-release" -> lock.unlockAsync(request.number("thread"));
            case "lock-force" -> lock.forceUnlockAsync();
            case "lock-held" -> lock.isHeldByThreadAsync(request.number("thread"));
            case "lock-token" -> client.getFencedLock(request.text("name")).getTokenAsync();
            default -> throw new IllegalArgumentException("no such verb: " + request.verb());
        };
    }

    @SuppressWarnings("deprecation") // getRedLock is deprecated, but services may use it
    static RLock lock(RedissonClient client, String kind, String name) {
        return switch (kind) {
            case "lock" -> client.getLock(name);
            case "fair" -> client.getFairLock(name);
            case "fenced" -> client.getFencedLock(name);
            case "spin" -> client.getSpinLock(name);
            case "read" -> client.getReadWriteLock(name).readLock();
            case "write" -> client.getReadWriteLock(name).writeLock();
            case "multi" -> client.getMultiLock(members(client, name));
            case "red" -> client.getRedLock(members(client, name));
            default -> throw new IllegalArgumentException("no such kind: " + kind);
        };
    }

    private static RLock[] members(RedissonClient client, String names) {
        return Arrays.stream(names.split(",")).map(client::getLock).toArray(RLock[]::new);
    }
}
