import { createClient } from 'redis';
import { minuteRecordsKey } from '../../src/store/keys.ts';

/** A busy month: rooms, and minutes of each day in which they are used. */
const MONTH = { days: 31, minutesADay: 480, rooms: 60 };
const FIELDS_AT_ONCE = 2000;
/** Query of a report of it. */
export const BUSY_MONTH = new URLSearchParams({
  from: '2026-01-01',
  to: '2026-02-01',
  granularity: 'minute',
}).toString();

/** Writes the records of January 2026 as usage workers leave them behind (src/store/scripts/usage/). */
export async function fillMonth(socketPath: string, accountId: number): Promise<void> {
  const client = createClient({ socket: { path: socketPath, tls: false } });
  await client.connect();
  try {
    for (let day = 1; day <= MONTH.days; day += 1) {
      const key = minuteRecordsKey(accountId, `2026-01-${twoDigits(day)}`);
      let fields: string[] = [];
      for (let minute = 0; minute < MONTH.minutesADay; minute += 1) {
        const time = `${twoDigits(Math.floor(minute / 60) + 8)}:${twoDigits(minute % 60)}`;
        for (let room = 0; room < MONTH.rooms; room += 1) {
          fields.push(`${time}|room-${room}`, '120000:60000:3');
        }
        if (fields.length < FIELDS_AT_ONCE && minute < MONTH.minutesADay - 1) continue;
        await client.hSet(key, fields);
        fields = [];
      }
    }
  } finally {
    client.destroy();
  }
}

const twoDigits = (value: number) => String(value).padStart(2, '0');
