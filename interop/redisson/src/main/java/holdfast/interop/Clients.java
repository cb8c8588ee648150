package holdfast.interop;

import java.util.Locale;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionStage;
import java.util.concurrent.ConcurrentHashMap;
import org.redisson.Redisson;
import org.redisson.config.NameMapper;
import org.redisson.api.RedissonClient;
import org.redisson.config.BaseMasterSlaveServersConfig;
import org.redisson.config.Config;
import org.redisson.config.ShardedSubscriptionMode;

/**
 * The Redisson clients, each as one Java service would have it.
 *
 * <pre>
 * client-open client= mode=single|sentinel|cluster addresses=host:port,... [master=] [watchdog=ms] [fairwait=ms]
 *             [sharded=auto|on|off] [prefix=]          the client's id, with which its owner fields begin
 * client-close client=
 * </pre>
 */
final class Clients {

    private static final int THREADS = 4; // per client; the defaults are for the load of a service

    private final Map<String, RedissonClient> open = new ConcurrentHashMap<>();

    RedissonClient get(Request request) {
        RedissonClient client = open.get(request.text("client"));
        if (client == null) {
            throw new IllegalArgumentException("no such client: " + request.text("client"));
        }
        return client;
    }

    /** Opens or closes a client in the background, because that takes a while. */
    CompletionStage<?> carryOut(Request request) {
        return switch (request.verb()) {
            case "client-open" -> CompletableFuture.supplyAsync(() -> open(request));
            case "client-close" -> CompletableFuture.runAsync(() -> open.remove(request.text("client")).shutdown());
            default -> throw new IllegalArgumentException("no such verb: " + request.verb());
        };
    }

    private String open(Request request) {
        RedissonClient client = Redisson.create(config(request));
        open.put(request.text("client"), client);
        return client.getId();
    }

    private static Config config(Request request) {
        Config config = new Config();
        config.setThreads(THREADS).setNettyThreads(THREADS);
        config.setLockWatchdogTimeout(request.number("watchdog", config.getLockWatchdogTimeout()));
        config.setFairLockWaitTimeout(request.number("fairwait", config.getFairLockWaitTimeout()));
        String prefix = request.text("prefix", "");
        if (!prefix.isEmpty()) {
            config.setNameMapper(new Prefix(prefix));
        }
        String[] addresses = request.text("addresses").split(",");
        for (int i = 0; i < addresses.length; i++) {
            addresses[i] = "redis://" + addresses[i];
        }
        switch (request.text("mode")) {
            case "single" -> config.useSingleServer().setAddress(addresses[0])
                .setConnectionMinimumIdleSize(2).setConnectionPoolSize(16);
            case "sentinel" -> small(config.useSentinelServers()).setMasterName(request.text("master")).addSentinelAddress(addresses)
                .setCheckSentinelsList(false).setScanInterval(500);
            case "cluster" -> small(config.useClusterServers()).addNodeAddress(addresses).setScanInterval(500)
                .setShardedSubscriptionMode(ShardedSubscriptionMode.valueOf(request.text("sharded", "auto").toUpperCase(Locale.ROOT)));
            default -> throw new IllegalArgumentException("no such mode: " + request.text("mode"));
        }
        return config;
    }

    private static <T extends BaseMasterSlaveServersConfig<T>> T small(T servers) {
        return servers.setMasterConnectionMinimumIdleSize(2).setMasterConnectionPoolSize(16)
            .setSlaveConnectionMinimumIdleSize(1).setSlaveConnectionPoolSize(4);
    }

    private record Prefix(String prefix) implements NameMapper {
        @Override
        public String map(String name) {
            return prefix + name;
        }

        @Override
        public String unmap(String name) {
            return name.substring(prefix.length());
        }
    }
}
