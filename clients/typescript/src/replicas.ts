// The replicas of the service: which one is asked first, and what happens when it does not answer.
import * as grpc from "@grpc/grpc-js";
import { type Client, type Method, type Target, RpcError, call, connect } from "./wire.js";
import { now, sleepUntil } from "./time.js";

/** How long calls wait for a service that does not answer, before they go on without it. */
export const PATIENCE_MS = 2000;
/** How often a service that is away is looked for. */
const LOOK_EVERY_MS = 1000;
/** How much longer than it may be held a call may take. */
const SLACK_MS = 3000;

/** Orders that are remembered: of so many scopes. */
const MOST_ORDERS = 1000;

/** Nobody answered for as long as a worker waits. */
export class Unreachable extends Error {
  override readonly name = "PacelineUnreachable";
}

interface Replica {
  name: string;
  client: Client;
  isDown: boolean;
}

export class Replicas {
  private readonly replicas: Replica[];
  private readonly orders = new Map<string, Replica[]>();
  private looker: NodeJS.Timeout | undefined;
  private away = false;

  constructor(addresses: readonly string[]) {
    this.replicas = addresses.map((name) => ({ name: name.replace(/^http:\/\//, ""), client: connect(name), isDown: false }));
  }

  /** Whether nobody answered last time. Then nobody waits for an answer: somebody looks once a second whether it is back. */
  get isAway(): boolean {
    return this.away;
  }

  /**
   * Sends what `make` makes to the scope's replica, then to the others, until one answers: every request may be repeated. Lengths of
   * time in it count from each try.
   */
  async send<A>(target: Target, method: Method, heldMs: number, make: () => object, signal?: AbortSignal): Promise<A> {
    let patience = this.away ? now() : now() + PATIENCE_MS;
    let last = "";
    for (let round = 0; ; round++) {
      for (const replica of this.order(target)) {
        // A hung replica is left in time for the next one; asks in line are held for long, and answered in any case.
        const withinMs = heldMs > PATIENCE_MS ? heldMs + SLACK_MS : PATIENCE_MS;
        try {
          const answer = await call<A>(replica.client, method, make(), withinMs, signal);
          replica.isDown = this.away = false;
          return answer;
        } catch (error) {
          signal?.throwIfAborted();
          if (!(error instanceof RpcError)) throw error;
          replica.isDown = error.isElsewhere;
          last = error.message;
          if (error.notBeforeMs !== undefined) {
            await sleepUntil(now() + error.notBeforeMs * (1 + Math.random() / 4), signal);
            patience = now() + PATIENCE_MS; // somebody is there
          } else if (!error.isElsewhere) throw error;
        }
      }
      if (now() >= patience) break;
      // Growing, and not all workers at once.
      await sleepUntil(now() + Math.min(50 * 2 ** round, 500) * (0.5 + Math.random() / 2), signal);
    }
    this.away = true;
    this.look();
    throw new Unreachable(`no Paceline service answers at ${this.replicas.map((replica) => replica.name).join(", ")} (${last})`);
  }

  close(): void {
    clearInterval(this.looker);
    for (const replica of this.replicas) replica.client.close();
  }

  /** Those that answer first, each in the order that every worker has for the scope. */
  private order(target: Target): Replica[] {
    const scope = `${target.provider}\0${target.account}`;
    let order = this.orders.get(scope);
    if (!order) {
      const weighed = this.replicas.map((replica) => ({ replica, weight: weight(target, replica.name) }));
      order = weighed.sort((a, b) => (a.weight < b.weight ? 1 : -1)).map(({ replica }) => replica);
      if (this.orders.size >= MOST_ORDERS) this.orders.clear();
      this.orders.set(scope, order);
    }
    return [...order].sort((a, b) => Number(a.isDown) - Number(b.isDown));
  }

  /** Looks for the replicas until one is there again. */
  private look(): void {
    this.looker ??= setInterval(() => {
      const isReady = (client: Client) => client.getChannel().getConnectivityState(true) === grpc.connectivityState.READY;
      if (this.away && !this.replicas.some((replica) => isReady(replica.client))) return;
      this.away = false;
      clearInterval(this.looker);
      this.looker = undefined;
    }, LOOK_EVERY_MS).unref();
  }
}

/** What a replica weighs for a scope: FNV-1a over provider, account and `ip:port`, finished as MurmurHash3 does. The highest is asked first. */
export function weight(target: { provider: string; account: string }, replica: string): bigint {
  let hash = 0xcbf29ce484222325n;
  for (const byte of new TextEncoder().encode(`${target.provider}\0${target.account}\0${replica}`)) {
    hash = BigInt.asUintN(64, (hash ^ BigInt(byte)) * 0x100000001b3n);
  }
  for (const factor of [0xff51afd7ed558ccdn, 0xc4ceb9fe1a85ec53n]) hash = BigInt.asUintN(64, (hash ^ (hash >> 33n)) * factor);
  return hash ^ (hash >> 33n);
}
