/** Requests to the operator's routes of a gateway of the bench. */

export const OPERATOR_KEY = 'operator-key-of-the-bench';

/** Asks an operator's route, and returns what it answers. */
export async function askOperator<T>(url: string, path: string, body: object): Promise<T> {
  const response = await fetch(new URL(path, url), {
    method: 'POST',
    headers: { authorization: `Bearer ${OPERATOR_KEY}`, 'content-type': 'application/json' },
    body: JSON.stringify(body),
  });
  if (!response.ok) throw new Error(`${path}: ${response.status} ${await response.text()}`);
  return (await response.json()) as T;
}

/** Makes an account beside the demo account, with a webhook if it has an endpoint. */
export const createAccount = (url: string, plan: string, endpoint?: string) =>
  askOperator<{ account: { id: number }; api_key: string }>(url, '/api/admin/accounts', {
    name: 'Others',
    email: 'others@example.com',
    plan,
    ...(endpoint && { webhook_url: endpoint }),
  });
